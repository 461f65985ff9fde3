"""The notebook's variables on their way: out with a cell, and back into the very objects that it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ..errors import CannotTravel, StorageError
from ..estimate.asking.worth import may_train_with
from ..graph import GraphMemory, Reply, Returned, Shipment, Undo, bring_into, ship, what_stayed
from ..jobs.events import Event, Note
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.result import from_descriptors, load
from ..jobs.state import ENDED
from ..program.reading.cell import CellNames
from ..surroundings import contexts, given, modes
from ..surroundings import generators as rng
from ..surroundings import travel as surroundings
from ..system.files import for_its_owner
from ..system.objects import module_of
from . import later_bars
from .cell import visible

_MOST_LOOKED_AT, _DEEP, _WIDE = 2000, 4, 100
MOST_KEPT = 2  # jobs whose objects wait to be wanted: each may hold a data set that nobody uses any more

_NOT_THE_USERS = (rng.NAME, modes.NAME, surroundings.NAME)


def pack(shell: InteractiveShell, names: CellNames) -> Shipment:
    """All that the cell needs of this notebook."""
    users = visible(shell)
    certain = {name for name in names.needs if name in names.certain or name not in names.writes}
    # What runs text (exec, %time), or asks for globals(), may read any name: all that can travel goes along.
    wanted = {name: name in names.needs for name in users if names.dynamic or name in names.needs}
    # A loop's own `batch`, which is read behind it: what an earlier cell had under the name is hardly meant.
    set_first = {name for name in names.needs if name not in certain and names.writes[name] < names.reads[name]}
    wanted |= dict.fromkeys(set_first.intersection(wanted), False)
    wanted |= dict.fromkeys(filter(given.of_shell(shell.user_ns), names.needs), True)
    whole, left = names.dynamic, list[str]()
    texts = getattr(shell.history_manager, "input_hist_parsed", [])
    while True:
        try:
            with (
                rng.travelling(shell.user_ns) as generators,
                modes.travelling(shell.user_ns) as set_here,
                surroundings.outward(shell.user_ns, texts, names.imports, names.magics if whole else None) as around,
            ):
                shipment = ship([*wanted, generators, set_here], shell.user_ns, around, _may_train, certain)
            if shipment.by_text and not whole:
                whole, wanted = True, dict.fromkeys(users, False) | wanted
                del shipment  # its copy of the bytes
                continue
            return replace(shipment, remarks=tuple(dict.fromkeys((*left, *shipment.remarks, *around.left))))
        except CannotTravel as error:
            refused = (error, *error.others)
            spared = {one.name: one for one in refused if wanted.get(one.name) is False}
            if not spared:
                for one in refused:
                    one.line = names.reads[one.name] + 1 if one.name in names.reads else None
                raise
            for name, one in spared.items():
                del wanted[name]
                if name in names.needs:
                    left.append(f"The cell begins without {name}, which it sets itself: {one.path} is {one.why}")


def _may_train(values: dict[str, Any]) -> bool:
    return may_train_with({name: value for name, value in values.items() if name not in _NOT_THE_USERS})


def packages_of(shell: InteractiveShell, names: CellNames) -> set[str]:
    """Those of which the cell's variables are, as far as a look at their surface shows, and what it imports."""
    todo: list[tuple[Any, int]] = [(shell.user_ns[name], 0) for name in names.needs if name in shell.user_ns]
    found, seen = set(names.imports), 0
    while todo and seen < _MOST_LOOKED_AT:
        value, depth = todo.pop()
        seen += 1
        cls = type(value)
        if issubclass(cls, ModuleType):
            found.add(value.__name__.partition(".")[0])
            continue
        code = (value,) if issubclass(cls, (type, FunctionType)) else ()
        found.update(module_of(one).partition(".")[0] for one in (*code, *cls.__mro__))
        if depth < _DEEP and not code:
            held = list.__iter__(value) if issubclass(cls, list) else ()
            inside = (
                vars(value) if hasattr(cls, "__dict__") and isinstance(getattr(value, "__dict__", None), dict) else {}
            )
            values = [*(dict.values(value) if issubclass(cls, dict) else held), *inside.values()]
            todo += [(one, depth + 1) for one in values[:_WIDE]]
    return found


def packed_sizes(shell: InteractiveShell, names: CellNames) -> dict[str, int]:
    """What would travel, in bytes."""
    return {name: size for name, size in pack(shell, names).sizes.items() if name not in _NOT_THE_USERS}


def write_graph(paths: JobPaths, shipment: Shipment) -> None:
    """Put what travels on the disk, less its bytes."""
    try:
        with open(paths.graph, "wb", opener=for_its_owner) as file:
            file.write(shipment.graph)
    except OSError as error:
        raise StorageError(str(paths.graph), error.strerror or str(error), "GPUFIT_DATA") from error


class JobVariables:
    """The variables of one job in one notebook, whose names are `namespace`."""

    def __init__(self, job: Job, paths: JobPaths, namespace: dict[str, Any]) -> None:
        self._job = job
        self._paths = paths
        self._namespace = namespace
        self._shipment: Shipment | None = None  # leads to the objects; none: they never were here
        self._aside: dict[str, Any] = {}  # trained objects whose names have another value here
        self._undo: Undo | None = None  # of what came of it, should it be resumed
        self.here = False  # they came back
        self.given = given.LeftToShell()  # with those that came while this was followed
        self._came = False  # while this was followed
        self.contexts: contexts.Contexts = {}  # for the next cell
        self._is_resumed = False
        self._show: Callable[[Event], None] = lambda event: None

    def shipped(self, shipment: Shipment) -> None:
        """Keep what the result needs to find its way back to the objects."""
        self._shipment = shipment

    def resumed(self) -> None:
        """The job goes on: where its objects are still here, they are those that are trained."""
        self.here = False
        self._leave_bytes()  # of a detached cell; the checkpoint has them

    def expect(self, show: Callable[[Event], None]) -> None:
        """The job is followed: say to `show` what comes of its variables."""
        self._show, self._came, self.given = show, False, given.LeftToShell()
        # Whoever resumes a job wants its result.
        self._is_resumed = self._shipment is not None and not self._shipment.memory.fds

    def take(self, found: list[int], counts: list[int]) -> None:
        """Bring them from the memory of a worker that has ended its cell."""
        reply, came_in = from_descriptors(found, counts, self._paths, has_objects=self._shipment is not None)
        if self._shipment is not None:  # a resumed worker has the input's bytes in a memory of its own
            self._shipment = replace(self._shipment, memory=came_in)
        self._bring_back(reply)

    def look_on_disk(self, *, again: bool) -> None:
        """Bring them where the job ended alone. Twice only if wanted: it would undo what came since."""
        name = self._job.name
        if self._came:
            return
        if again and self._aside:
            self._namespace.update(self._aside)
            self._show(Note(f"These are now the trained ones of {name}: {', '.join(self._aside)}."))
            self._aside = {}
        elif self.here and not again:
            self._show(Note(f"The variables of {name} came earlier. To have them again: %gpufit attach --again {name}"))
        elif (reply := load(self._paths)) is not None:
            self._bring_back(reply)
        elif again and self.here:
            self._show(
                Note(
                    f"The variables of {name} came into this notebook at its end, and are kept nowhere else. To have"
                    " them as they were, run its cell again."
                )
            )

    def end(self) -> None:
        """Nothing comes that could use the shipment, whatever the end, unless the job is resumed.

        Then its objects are needed, to become what they are trained to; the bytes are in the checkpoint.
        """
        with contexts.noted(self.contexts):
            modes.arrived(self._namespace)
        if read_record(self._paths).resumable:
            self._leave_bytes()
        else:
            self._shipment = self._undo = None

    @property
    def has_objects(self) -> bool:
        return self._shipment is not None or bool(self._aside) or self._undo is not None

    @property
    def wait_for_a_wish(self) -> bool:
        """Whether objects are kept here for the case that somebody goes on with the job, or attaches to it again."""
        return bool(self._aside) or (self.has_objects and read_record(self._paths).resumable)

    @property
    def are_cleaned(self) -> bool:
        """Whether nobody can wish for anything of the job: its files are gone."""
        return not self._paths.job.exists()

    @property
    def can_come(self) -> bool:
        """Whether the job may still have something for the objects that are kept here."""
        record = read_record(self._paths)
        if record.state not in (*ENDED, "lost") or record.resumable or self._paths.result.exists():
            return True
        return record.worker is not None and record.worker.alive()

    def forget(self, *, aside: bool = False) -> None:
        """Let the objects go: what comes of the job from now on comes as new ones.

        What came and stands aside is the user's until it is asked for, unless that is to go, too.
        """
        self._shipment = self._undo = None
        if aside:
            self._aside = {}

    def _leave_bytes(self) -> None:
        if self._shipment is not None:
            self._shipment = replace(self._shipment, memory=GraphMemory([]))

    def _bring_back(self, reply: Reply) -> None:
        returned = self._put_in_place(reply)
        self.given = given.arrived(self._namespace)
        self._undo = returned.undo
        self.here = self._came = True
        self._name_anew(returned)
        for remark in returned.remarks:
            self._show(Note(remark))
        # But for those that the worker has told already.
        for words in what_stayed(left for left in returned.left_behind if left not in reply.left_behind):
            self._show(Note(words))

    def _put_surroundings(self) -> None:
        with contexts.noted(self.contexts):
            remarks = surroundings.arrived(self._namespace, in_kernel=True).remarks
        for remark in remarks:
            self._show(Note(remark))

    def _put_in_place(self, reply: Reply) -> Returned:
        try:
            if self._shipment is not None:
                return self._shipment.bring_back(reply, self._namespace, self._undo)
            return bring_into(self._namespace, reply, self._undo)
        finally:
            try:
                self._put_surroundings()
            finally:
                rng.arrived(self._namespace)  # last: modules may be imported, and some draw numbers then
                later_bars.let_go_on()

    def _name_anew(self, returned: Returned) -> None:
        """Say which names no longer lead to what was trained: of a resumed job they are bound to it again."""
        parted = {name: value for name, value in returned.parted.items() if name not in _NOT_THE_USERS}
        self._aside = {} if self._is_resumed else parted
        if not parted:
            return
        job, names, one = self._job.name, ", ".join(parted), len(parted) == 1
        if self._is_resumed:
            self._namespace.update(parted)
            trained, those = ("the trained one", "that") if one else ("the trained ones", "those")
            self._show(Note(f"{names}: {trained} of job {job} replaced {those} that you had defined since."))
            return
        stay, them, trained = ("it was", "it", "the trained one") if one else ("they were", "them", "the trained ones")
        self._show(
            Note(
                f"You defined {names} again while {job} ran, so {stay} left as you defined {them}. For {trained}:"
                f" %gpufit attach --again {job}"
            )
        )


class AllVariables:
    """Those of all jobs of one notebook, whose names are `namespace`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._of: dict[str, JobVariables] = {}

    def of(self, job: Job, paths: JobPaths) -> JobVariables:
        return self._of.setdefault(job.id, JobVariables(job, paths, self._namespace))

    def after_cell(self) -> None:
        """Have what came into the context of the cell that ends hold for the next ones."""
        for variables in self._of.values():
            contexts.put(variables.contexts)

    def let_go(self) -> None:
        """Keep no objects for jobs of which nothing can come, and for the newest only of those that may be wanted."""
        for variables in self._of.values():
            if variables.has_objects and not variables.can_come:
                variables.forget(aside=variables.are_cleaned)
        for variables in [one for one in self._of.values() if one.wait_for_a_wish][:-MOST_KEPT]:
            variables.forget(aside=True)
