"""The rules of the house, read from the imports alone: lazy ones and those for types count as any other.

A room is a folder (or a bare file) below `jupyter_gpufit/`. It imports lower floors only, and on one floor nobody knows
a neighbour. docs/architecture.md says what each room is for.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "jupyter_gpufit"
HERE = Path(__file__).resolve().parents[1] / PACKAGE

FLOORS = (  # from the ground up
    {"errors", "units", "quantities", "settings"},  # these four know each other
    {"system"},
    {"devices"},
    {"graph", "program", "cuda"},
    {"surroundings", "fit", "models"},
    {"jobs"},
    {"suspend"},
    {"lab", "checkpoint", "engine", "calls"},
    {"snapshot", "estimate", "examine"},
    {"train"},
    {"testing"},
    {"actions"},
    {"worker", "deploy"},
    {"notebook", "terminal", "server", "hub"},
    {"", "__main__"},  # the package itself: what IPython and Jupyter load, and Python runs
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
TORCH = (
    "cuda",
    "devices.sides",
    "graph.kinds",
    "surroundings",
    "fit.rungs",
    "fit.several",
    "fit.seen",
    "snapshot",
    "estimate.tracing",
    "models.export",
    "worker",
    "notebook.cuda",  # which enters a torch that is loaded
    "examine.user.torch_says",
)


@cache
def modules() -> dict[str, ast.Module]:
    """Every module's tree by its dotted name below the package; the package itself is ""."""
    found = {}
    for path in sorted(HERE.rglob("*.py")):
        parts = path.relative_to(HERE).with_suffix("").parts
        if "_labextension" not in parts:
            found[".".join(parts).removesuffix("__init__").rstrip(".")] = ast.parse(path.read_text())
    return found


@cache
def imports_and_calls(module: str) -> list[ast.AST]:
    """All that a rule asks for, found in one walk: five of them took a tenth of the time of the fast tests."""
    return [node for node in ast.walk(modules()[module]) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def is_package(module: str) -> bool:
    return (HERE / module.replace(".", "/")).is_dir()


def imported(module: str) -> Iterator[str]:
    """The modules of ours that a module imports."""
    for node in imports_and_calls(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield _module_of(name.removeprefix(PACKAGE).lstrip("."))


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = [PACKAGE, *filter(None, module.split("."))]
    up = node.level - is_package(module)
    return ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])


def _module_of(name: str) -> str:
    """A name that is imported may be a module, or something in one."""
    return name if name in modules() else name.rpartition(".")[0]


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_room_has_its_floor() -> None:
    assert {room(module) for module in modules()} == set(FLOOR)


def test_a_room_imports_lower_floors_only() -> None:
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        for other in imported(module)
        if room(module) != room(other)
        and FLOOR[room(module)] <= FLOOR[room(other)]
        and FLOOR[room(module)] > 0
        or FLOOR[room(module)] == 0 < FLOOR[room(other)]
    ]
    assert wrong == []


def test_no_imports_run_in_a_circle() -> None:
    ahead = {module: set(imported(module)) - {module} for module in modules()}
    while leaves := [module for module, others in ahead.items() if not others & ahead.keys()]:
        for module in leaves:
            del ahead[module]
    # What is left stands in a circle, or above one.
    while tops := [module for module in ahead if not any(module in others for others in ahead.values())]:
        for module in tops:
            del ahead[module]
    assert sorted(ahead) == []


def test_the_lab_and_the_jobs_do_not_know_each_other() -> None:
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        for other in imported(module)
        if {room(module), room(other)} == {"lab", "jobs"}
    ]
    assert wrong == []


def test_torch_is_imported_where_tensors_are_and_nowhere_else() -> None:
    wrong = [module for module in modules() if "torch" in _libraries(module) and not module.startswith(TORCH)]
    assert wrong == []


def _libraries(module: str) -> set[str]:
    found = set()
    for node in imports_and_calls(module):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_processes_are_started_in_one_place() -> None:
    starts = ("Popen", "open_process", "create_subprocess_exec")
    wrong = {
        module
        for module in modules()
        for node in imports_and_calls(module)
        if isinstance(node, ast.Call) and _called(node) in starts
    }
    assert wrong == {"system.processes"}


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def test_a_public_class_name_occurs_once() -> None:
    names = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("module", ["graph", "program", "lab", "jobs", "checkpoint", "estimate", "worker"])
def test_what_the_rules_are_read_from_is_there(module: str) -> None:
    """A rule over nothing would hold."""
    assert any(room(one) == module and list(imported(one)) for one in modules())
