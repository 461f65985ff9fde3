"""Modules that cells put into `sys.modules`, where no import would find them, are there in another process, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import cloudpickle
import pytest

from jupyter_gpufit.graph.made_modules import beyond_imports

from .crossing import Worker, notebook

MADE = """
import sys, types
rate = 3
def scaled(x):
    return rate * x
made, inner = types.ModuleType('made_by_a_cell'), types.ModuleType('made_by_a_cell.inner')
made.scaled, made.inner, inner.seen = scaled, inner, []
sys.modules['made_by_a_cell'], sys.modules['made_by_a_cell.inner'] = made, inner
"""
NAMELESS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location('', 'PATH')
sys.modules[''] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[''])
scenario = sys.modules[''].Scenario()
bound, made = scenario.step, type(scenario)
"""
LOADED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location('loaded_by_its_path', 'PATH')
sys.modules['loaded_by_its_path'] = loaded = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loaded)
point = loaded.Point()
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The cells of these tests write into this process's own table."""
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_one_that_a_cell_made_is_there_with_the_notebooks_own_functions(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "user_of_it.py").write_text("from made_by_a_cell import inner, scaled\n")
    monkeypatch.syspath_prepend(tmp_path)
    namespace = notebook(MADE, "import user_of_it")

    worker.cross(
        namespace,
        "import made_by_a_cell, made_by_a_cell.inner as again; global rate; rate = 5\n"
        "same = made_by_a_cell is made and again is user_of_it.inner\nfound = user_of_it.scaled(2)",
        "user_of_it",
        "made",
        "rate",
    )

    assert namespace["same"] and namespace["found"] == 10  # the function read the rate that the cell set


def test_one_that_was_loaded_by_its_path_is_loaded_there(worker: Worker, tmp_path: Path) -> None:
    (path := tmp_path / "experiment-7.py").write_text("class Point:\n    x = 1\n")
    namespace = notebook(LOADED.replace("PATH", str(path)))

    worker.cross(namespace, "import loaded_by_its_path as again; found = point.x, type(point) is again.Point")

    assert namespace["found"] == (1, True)


def test_the_code_of_one_without_a_name_goes_along(worker: Worker, tmp_path: Path) -> None:
    """As the scenarios of multi-agent worlds are loaded: `imp.load_source('', path)`."""
    (path := tmp_path / "simple.py").write_text(
        "import math\nclass Base:\n    seen = 0\n"
        "class Scenario(Base):\n    def step(self):\n        self.seen += 1\n"
        "        return rounded(math.pi) + self.seen\n"
        "def rounded(x):\n    return round(x)\n"
    )
    namespace = notebook(NAMELESS.replace("PATH", str(path)))

    worker.cross(namespace, "found = bound(), scenario.step(), type(scenario) is made", "bound", "scenario", "made")

    assert namespace["found"] == (4, 5, True) and namespace["scenario"].seen == 2
    assert type(namespace["scenario"]) is sys.modules[""].Scenario


def test_a_module_under_a_second_name_is_there_the_same_one(worker: Worker) -> None:
    namespace = notebook("import cloudpickle.cloudpickle as moved, sys; sys.modules['cloudpickle.once_here'] = moved")

    worker.cross(
        namespace,
        "import cloudpickle.once_here as again\nfound = again is moved, again.__spec__.name",
        "moved",
    )

    assert namespace["found"] == (True, "cloudpickle.cloudpickle")


def test_one_that_cannot_travel_keeps_nothing_from_travelling(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "made_by_a_cell", MagicMock(held=sys._getframe()))
    namespace = notebook("x = 1")

    worker.cross(namespace, "x += 1")

    assert namespace["x"] == 2


def test_what_a_library_makes_it_makes_there_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("cloudpickle.made")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    vars(made).update(dumps=cloudpickle.dumps)

    assert "cloudpickle.made" not in str(beyond_imports(lambda value: True))


def test_what_compiled_code_makes_in_its_package_it_makes_there_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rust's classes say of no module."""
    made = ModuleType("cloudpickle.made")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    vars(made).update(Decoder=type("Decoder", (), {"__module__": "builtins"}))

    assert "cloudpickle.made" not in str(beyond_imports(lambda value: True))


def test_what_compiled_code_makes_within_a_module_of_its_own_it_makes_there_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Qiskit's: each inner module says its last name only."""
    made = ModuleType("classical")
    monkeypatch.setitem(sys.modules, "cloudpickle.classical", made)
    vars(made).update(expr=ModuleType("expr"), types=ModuleType("types"))

    assert "cloudpickle.classical" not in str(beyond_imports(lambda value: True))


@pytest.mark.parametrize("module", ["builtins", property(lambda function: "numpy.random")])
def test_what_cython_keeps_for_all_its_modules_is_made_there_by_the_first_of_them(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    """Whoever has what brings it has it: `import tensorboardX` and Comet's client, or any cell with NumPy 2.2."""
    kept = ModuleType("_cython_9_9_9")
    monkeypatch.setitem(sys.modules, kept.__name__, kept)
    vars(kept).update(generator=type("generator", (), {"__module__": module}))
    namespace = notebook("x = 1")

    worker.cross(namespace, "x += 1")

    assert namespace["x"] == 2 and "_cython_9_9_9" not in str(beyond_imports(lambda value: True))


def test_what_installed_code_loads_by_a_path_it_loads_there_itself(tmp_path: Path) -> None:
    file = tmp_path / "site-packages" / "vendored" / "of_a_debugger.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    there = str(file.parent)
    sys.path.insert(0, there)
    __import__("of_a_debugger")
    sys.path.remove(there)

    assert "of_a_debugger" not in str(beyond_imports(lambda value: True))


def test_a_compiled_one_that_nobody_registered(worker: Worker) -> None:
    """As torch.utils.cpp_extension.load_inline gives one."""
    markupsafe = pytest.importorskip("markupsafe._speedups")
    namespace = notebook(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('_speedups', {markupsafe.__file__!r})\n"
        "speedups = importlib.util.module_from_spec(spec); spec.loader.exec_module(speedups)\n"
        "sys.modules.pop('_speedups', None)"
    )
    mine = namespace["speedups"]

    worker.cross(namespace, "found = speedups._escape_inner('<')", "speedups")

    assert namespace["found"] == "&lt;" and namespace["speedups"] is mine


@pytest.mark.slow(1)
def test_one_inside_of_a_package_is_there_before_what_imports_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "old_repository").mkdir()
    (tmp_path / "old_repository" / "__init__.py").write_text("from .version import __version__\n")
    (tmp_path / "old_repository" / "train.py").write_text(
        "import torch\nfrom torch._six_of_old import string_classes\n"
        "def train():\n    from . import __version__\n    return __version__, string_classes('a')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    namespace = notebook(
        "import importlib.machinery, sys, types\n"
        "def string_classes(x):\n    return x * 2\n"
        "six = types.ModuleType('torch._six_of_old')\nsix.string_classes = string_classes\n"
        "six.__spec__ = importlib.machinery.ModuleSpec(six.__name__, None)\n"
        "version = types.ModuleType('old_repository.version')\nversion.__version__ = '1.4'\n"
        "sys.modules[six.__name__], sys.modules[version.__name__] = six, version",
        "from old_repository.train import train",
    )

    worker.cross(
        namespace,
        "import importlib.util; found = *train(), importlib.util.find_spec('torch._six_of_old') is not None",
        "train",
    )

    assert namespace["found"] == ("1.4", "aa", True)


def test_an_object_whose_class_names_no_module_travels_by_its_own_way(worker: Worker) -> None:
    """Qiskit hides the classes of its singletons so."""
    namespace = notebook(
        "class Gate:\n    def __reduce__(self): return Gate, ()\n"
        "Hidden = type('Hidden', (Gate,), {}); Hidden.__module__ = None\ngate = Hidden(); del Hidden"
    )

    worker.cross(namespace, "seen = type(gate).__name__", "gate")

    assert namespace["seen"] == "Gate"
