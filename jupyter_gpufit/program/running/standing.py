"""Reading the stack at a safe point: which activations there are, or why they cannot all be saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

from ...errors import NotHere
from ...system.variables import values_of
from ..values import FRAME, FrameRecord, Unit
from .activation import Activation

Taken: TypeAlias = tuple[FrameRecord, Activation, FrameType]  # an activation at a safe point

_OURS = str(Path(__file__).resolve().parents[2]) + "/"


def activations(
    innermost: FrameType | None,
    unit_of: Callable[[CodeType], Unit | None],
    namespace: dict[str, Any],
    outer_of: Callable[[FrameType], FrameType | None],
) -> list[tuple[Activation, FrameType]]:
    """Outermost first."""
    found: list[tuple[Activation, FrameType]] = []
    frame = innermost
    while frame is not None:
        code = frame.f_code
        unit = unit_of(code)
        if unit is not None:
            if unit.kind == "generator" and not _is_asked_by(frame, unit_of, namespace):
                raise NotHere(f"the loop runs inside {_place(frame)}, a generator that is computing its next value.")
            found.append((values_of(frame)[unit.frame], frame))
            if unit.kind == "text":  # between it and who runs it there may be frames of Python's and IPython's
                frame = outer_of(frame)
                continue
        elif code.co_name == "<module>" and frame.f_globals is namespace:
            found.append((namespace[FRAME], frame))
            return found[::-1]
        elif not code.co_filename.startswith(_OURS):
            raise NotHere(f"the loop runs inside {_place(frame)}, which can only run to its end.")
        frame = frame.f_back
    raise NotHere("the loop does not run inside the cell.")


def _is_asked_by(generator: FrameType, unit_of: Callable[[CodeType], Unit | None], namespace: dict[str, Any]) -> bool:
    """Whether who asks a generator for its next value can be left meanwhile: by `next()`, or by `yield from`."""
    frame = generator.f_back
    while frame is not None and unit_of(frame.f_code) is None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return False
    unit = unit_of(frame.f_code)
    is_cell = unit is None and frame.f_code.co_name == "<module>" and frame.f_globals is namespace
    if unit is None and not is_cell:
        return False
    held = namespace[FRAME] if is_cell or unit is None else values_of(frame)[unit.frame]
    asked = held.its.get(held.pc)
    if held.unit.kind != "generator":
        asked = asked[0] if type(asked) is tuple else None
    return getattr(asked, "gi_frame", None) is generator


def _place(frame: FrameType) -> str:
    code = frame.f_code
    name = code.co_qualname if not code.co_name.startswith("<") else f"a {code.co_name.strip('<>')}"
    return f"{name} ({file_of(code)}, line {frame.f_lineno})"


def file_of(code: CodeType) -> str:
    """For people."""
    file = code.co_filename.removeprefix("<frozen ")  # of Python itself, as <frozen os> is
    return "the cell" if file.startswith("<") else Path(file.removesuffix(">")).name


def record_of(frame: Activation, standing: FrameType) -> FrameRecord:
    path = frame.unit.paths[frame.pc] if frame.pc is not None else frozenset()
    assert frame.pc is not None
    return FrameRecord(
        uid=frame.unit.uid,
        pc=frame.pc,
        locals=saved_locals(frame.unit, standing),
        cells=cells_of(frame.cells),
        callee=frame.callee,
        its={k: one for k, one in frame.its.items() if k in path},
        cms={k: one for k, one in frame.cms.items() if k in path},
        wholes={k: one for k, one in frame.wholes.items() if k in path},
    )


def saved_locals(unit: Unit, standing: FrameType) -> dict[str, Any]:
    """A cell's and a text's variables are saved with the namespace, of which its temporaries are no part."""
    there = values_of(standing)
    names = [] if unit.kind in ("cell", "text") else [name for name in unit.locals if name in there]
    names += [name for name in there if name.startswith(unit.temporary) and there[name] is not None]
    return {name: there[name] for name in names}


def cells_of(shown: Any) -> dict[str, Any]:
    """By name: a lambda that uses variables holds their cells."""
    if isinstance(shown, dict):
        return shown
    return {} if shown is None else dict(zip(shown.__code__.co_freevars, shown.__closure__, strict=True))
