"""What is imported in this process, what each module held when it was, and what an import did to older modules.

A finder before all others lets them find, and has a look at each module when its code has run. Modules of the standard
library are not looked at, nor those whose state has other ways to travel, nor what the kernel itself is made of.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ..system import simulators
from ..system.objects import module_of
from ..system.packages import file_of, is_installed, stated
from . import generators
from .added_names import AddedNames
from .changes import ChangedHolder, Difference, absorb, same, values_of
from .holders import holders, root

# Their settings travel by their own calls (surroundings/modes.py), or they are handles of a run that goes on elsewhere.
_OTHER_WAYS = frozenset(
    ("torch", "numpy", "pandas", "matplotlib", "mpl_toolkits", "triton", "sympy", "mpmath", "cloudpickle", "psutil")
    + ("wandb", "mlflow", "tensorboard", "tensorboardX", "tqdm", "comet_ml", "neptune", "aim", "dvclive", "trackio")
    + ("swanlab", "IPython", "ipykernel", "ipywidgets", "traitlets", "zmq", "jupyter_client", "comm", "debugpy")
)
_HOOKED = ("torch.nn.modules.module", "torch.optim.optimizer")
_NONE = ModuleType("none")
NOT_PACKAGES = frozenset({*sys.stdlib_module_names, "builtins", "__main__", "__mp_main__", "jupyter_gpufit"})
_NEVER = NOT_PACKAGES | _OTHER_WAYS
_CHAIN = re.compile(r"(?<![\w.])([^\W\d]\w*)((?:\.\w+)+)")  # a name and its attributes
_IMPORTLIB = ("<frozen importlib", "importlib/")


class Watch(MetaPathFinder):
    """The modules of one process."""

    def __init__(self) -> None:
        self._own: frozenset[str] = frozenset()
        self._held: dict[int, ChangedHolder] = {}
        self._finished: list[str] = []  # modules, in the order in which their code had run
        self._first = 0  # of these, in the outermost import
        self._loading: list[str] = []  # whose code is running
        self._before: dict[int, Difference | None] | None = None  # while a cell imports
        self._sizes: dict[int, int] = {}  # while a library does: of all holders
        self.cells_import: set[str] = set()  # packages
        self._thread = 0
        self.caused: dict[str, set[str]] = {}  # a module, and those that its import changed
        self.leads_to: dict[str, set[str]] = {}  # a package, and those that it has imported
        self.variables: set[str] = set()  # of the environment, which packages have set when they were imported
        self._env: dict[str, str] = {}  # when the outermost import began
        self.drew: set[str] = set()  # modules that were imported where random numbers were drawn for that
        self.drew_before: set[str] = set()  # the same, in the process that this one goes on for
        self._generators: dict[str, Any] = {}  # as they were when the outermost import began
        self._counted = 0  # modules, when it was last asked for those of packages
        self._installed: list[str] = []
        self.added = AddedNames()  # to the packages whose state has other ways to travel
        self.on_imported: Callable[[], None] = lambda: None  # the outermost import is done

    def begin(self, imported: Iterable[str] = ()) -> None:
        """Look at all that is imported from now on; of what is here already at these packages, as they are now."""
        theirs = {*imported}
        self.added.begin(_OTHER_WAYS)
        self._own = frozenset(root(name) for name in sys.modules if root(name) not in theirs)
        sys.meta_path.insert(0, self)
        for name in list(sys.modules):
            if root(name) in theirs and self.wants(name):
                self._take(name)

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def wants(self, name: str) -> bool:
        return root(name) not in _NEVER and root(name) not in self._own

    def installed(self) -> list[str]:
        """Modules of packages that are imported here, but for those of which the kernel itself is made; in their order.

        Each by the name under which it can be imported.
        """
        if len(sys.modules) != self._counted:
            self._counted = len(sys.modules)
            self._installed = [name for name, module in list(sys.modules.items()) if self._is_packages(name, module)]
        return self._installed

    def _is_packages(self, name: str, module: ModuleType) -> bool:
        spec = stated(module, "__spec__")
        if not isinstance(spec, ModuleSpec) or spec.name != name or root(name) in self._own | NOT_PACKAGES:
            return False
        return isinstance(spec.origin, str) and is_installed(spec.origin)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        self._note_who_asks(name)
        if not self.wants(name):
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec: ModuleSpec | None = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Looking(self, spec.loader)
                return spec
        return None

    def _note_who_asks(self, name: str) -> None:
        """Which package needs which, also where one imports another inside a function."""
        asking = root(str(_who_asks().f_globals.get("__name__", "")))
        if asking != root(name):
            self.leads_to.setdefault(asking, set()).add(root(name))

    # While a module's code runs ---------------------------------------------------------------------------------------

    def begins(self, name: str) -> None:
        if self._loading:
            if threading.get_ident() == self._thread:
                self._loading.append(name)
            return
        self._thread = threading.get_ident()
        self._loading.append(name)
        self._generators, self._first = generators.of_host(), len(self._finished)
        self._env = dict(os.environ)
        if _who_asks().f_globals.get("__name__") == "__main__":
            self.cells_import.add(root(name))
            self._before = self.differences()
        else:
            self._sizes = {number: len(holder) for number, holder in self._held.items()}

    def ends(self, name: str) -> None:
        self._take(name)
        if threading.get_ident() != self._thread or name not in self._loading:
            return
        del self._loading[self._loading.index(name) :]
        if self._loading:
            return
        self._mind_what_was_drawn(name)
        if is_installed(file_of(sys.modules.get(name))):
            self.variables.update({key for key, _ in self._env.items() ^ os.environ.items()})
        if self._before is not None:
            self._absorb(name, self._before)
            self._before, self._sizes = None, {}
        else:
            self._absorb_what_grew()
        self.on_imported()

    def _mind_what_was_drawn(self, name: str) -> None:
        """What a module draws when it is imported is drawn once, also where a second process imports it."""
        if generators.drawn_since(self._generators):
            self.drew.update(self._finished[self._first :])
            if name in self.drew_before:
                generators.restore_host(self._generators)

    def _take(self, name: str) -> None:
        module = sys.modules.get(name)
        if not isinstance(module, ModuleType):
            return
        self._finished.append(name)
        with suppress(Exception):  # of its own objects, asked for what they have: the import goes well all the same
            simulators.watch(module)
            for steps, obj in holders(module, lambda found: id(found) in self._held):
                holder = self._held[id(obj)] = ChangedHolder((name, steps), obj)
                self._sizes[id(obj)] = len(holder)  # what the rest of this import adds is that import's, too

    def _absorb(self, importer: str, before: dict[int, Difference | None]) -> None:
        """What has changed since `before` was the import's doing: whoever imports the same has it."""
        for number, holder in list(self._held.items()):
            then, now = before.get(number), holder.difference()
            changed = holder.place[0]
            if same(then, now):
                continue
            for by in _makers(now, then, self._finished, importer):
                if by != changed:
                    self.caused.setdefault(by, set()).add(changed)
            absorb(holder, then)

    def _absorb_what_grew(self) -> None:
        """The same for what a library imports as it goes: quicker, and only what was added is seen."""
        for number, size in self._sizes.items():
            holder = self._held[number]
            if len(holder) > size:
                holder.absorb(len(holder) - size)
        self._sizes = {}

    # What has changed -------------------------------------------------------------------------------------------------

    def differences(self) -> dict[int, Difference | None]:
        """By the id() of what holds it; only what has changed."""
        self._take_hooks()
        found: dict[int, Difference | None] = {}
        for number, holder in list(self._held.items()):
            difference = holder.difference()
            if difference is not None:
                found[number] = difference
        return found

    def _take_hooks(self) -> None:
        """The tables of what is called for every module and optimizer, which are empty when torch is imported."""
        for home in _HOOKED:
            for name, table in list(vars(sys.modules.get(home, _NONE)).items()):
                if name.startswith("_global_") and isinstance(table, dict) and id(table) not in self._held:
                    self._held[id(table)] = ChangedHolder((home, ((".", name),)), table, then={})

    def holder(self, number: int) -> ChangedHolder | None:
        return self._held.get(number)

    def numbers(self) -> Iterator[int]:
        self._take_hooks()
        return iter(list(self._held))

    def packages(self, mentioned: Callable[[str], bool]) -> set[str]:
        """Those that are mentioned, and those that cells have imported and that these need, directly or not."""
        known = {root(name) for name in self._finished} | set(self.leads_to)
        first = {name for name in known if name != "__main__" and mentioned(name)}
        return first | (self.reached(first) & self.cells_import)

    def reached(self, first: Iterable[str]) -> set[str]:
        """These packages, and those that they have imported, directly or not."""
        reached: set[str] = set()
        todo = [*first]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo.extend(self.leads_to.get(name, ()))
        return reached


class _Looking(Loader):
    """A module's own loader, with a look at the module when its code has run."""

    def __init__(self, watch: Watch, loader: Any) -> None:
        self._watch, self._loader = watch, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        spec.loader = self._loader  # what the module, and whoever looks at it, finds
        try:
            made: ModuleType | None = self._loader.create_module(spec)
        finally:
            spec.loader = self
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        name = module.__name__
        self._watch.begins(name)
        try:
            self._loader.exec_module(module)
        finally:
            self._watch.ends(name)


def is_of_torch(holder: ChangedHolder) -> bool:
    """Whether it is a table of hooks for all modules, or for all optimizers."""
    return holder.place[0] in _HOOKED


def _who_asks() -> FrameType:
    """The code that imports, whichever way it does."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__") == __name__ or any(one in frame.f_code.co_filename for one in _IMPORTLIB)
    ):
        frame = frame.f_back
    return frame


def _makers(now: Difference | None, then: Difference | None, finished: list[str], importer: str) -> set[str]:
    """The modules whose code has made what is new: by the names that functions and classes carry, else the import's."""
    known = set() if then is None else {id(value) for _, value in values_of(then)}
    fresh = [value for _, value in ([] if now is None else values_of(now)) if id(value) not in known]
    homes = {module_of(value) if isinstance(value, (type, FunctionType)) else "" for value in fresh}
    return {home if home in finished else importer for home in homes} or {importer}


# Imports made again elsewhere ----------------------------------------------------------------------------------------


def reached_by(texts: Iterable[str], namespace: Mapping[str, Any]) -> set[str]:
    """Modules of packages that cells reach through the package: `tqdm.notebook`, which something has imported here."""
    found: set[str] = set()
    for name, steps in {match.groups() for text in texts for match in _CHAIN.finditer(text)}:
        module = namespace.get(name)
        if not isinstance(module, ModuleType):
            continue
        reached = module.__name__
        for step in steps.split(".")[1:]:
            reached = f"{reached}.{step}"
            if reached not in sys.modules:
                break
            found.add(reached)
    return found


def import_quietly(names: Iterable[str]) -> None:
    """What cannot be imported is missing where it is used, and said there."""
    for name in names:
        if name not in sys.modules and name.rpartition(".")[0] in sys.modules:
            with suppress(Exception, SystemExit):
                import_module(name)


def import_causes(causes: dict[str, list[str]], remarks: list[str]) -> None:
    """Import what changes a module that is here: a plug-in, and what adds methods to another module's class."""
    tried: set[str] = set()
    while True:
        loaded = sys.modules
        missing = [
            by for by, them in causes.items() if by not in loaded and by not in tried and any(map(loaded.get, them))
        ]
        if not missing:
            return
        for name in missing:
            tried.add(name)
            try:
                import_module(name)
            except (Exception, SystemExit) as error:  # which reads a command line, and does not like it
                remarks.append(
                    f"{name}, which an earlier cell imported, cannot be imported in this process"
                    f" ({type(error).__name__}: {error}). What it does to {causes[name][0]} is missing."
                )
