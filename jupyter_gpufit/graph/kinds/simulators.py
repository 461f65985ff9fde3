"""Simulations in compiled code (see system/simulators.py): made anew, and brought to where they stood.

One whose attributes can all travel (MuJoCo's, before it is rendered) travels as they are.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ...system.objects import is_generator
from ...system.simulators import (
    Forgotten,
    Stood,
    filled_by_itself,
    is_simulation,
    made_with,
    make_again,
    take,
    tell,
)
from ..kind import Kind, Pickler, Reduced, kind_of
from .generic import GENERIC
from .instances import (
    STORABLE,
    attributes,
    fill_storable,
    holds_refused,
    is_plain,
    leads_to_refused,
    make,
    storable_mark,
    storable_state,
)


class Simulated(NamedTuple):
    stood: Stood | str  # a sentence's end: why it is not known where
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    own: dict[str, Any]  # attributes


_waiting: list[tuple[Any, Simulated]] = []
_remarks: list[str] = []


def find(cls: type) -> Kind | None:
    return SIMULATION if is_simulation(cls) and is_plain(cls) else None


def _is_handle(obj: Any, pickler: Pickler | None = None) -> bool:
    return "_ezpickle_args" in (attributes(obj)[0] or {}) and holds_refused(obj, pickler)


def reduce_simulation(obj: Any, pickler: Pickler) -> Reduced:
    if not _is_handle(obj, pickler):
        return STORABLE.reduce(obj, pickler)
    state = _state(obj)
    if isinstance(state.stood, str):
        what = f"a simulation in compiled code ({type(obj).__qualname__})"
        if pickler.is_snapshot:
            return pickler.refuse(obj, f"{what}: {state.stood}")
        if not pickler.back:
            pickler.remarks.append(
                f"{pickler.name} has {what}, and {state.stood}: the training gets it as it was when it was made."
                " Reset it before its next step."
            )
    return *make(obj, pickler), state, None, None, arrive


def _state(obj: Any) -> Simulated:
    own = attributes(obj)[0] or {}
    filled = filled_by_itself(type(obj))
    travels = {
        name: value
        for name, value in own.items()
        if _is_its_own(value) and not (name in filled and isinstance(value, list | dict | set | deque))
    }
    try:
        return Simulated(tell(obj), *made_with(obj), travels)
    except Forgotten as why:
        return Simulated(str(why), *made_with(obj), travels)


def _is_its_own(value: Any) -> bool:
    """Whether an attribute is more than a handle of what is simulated: the one that is made anew has that itself."""
    return (kind_of(type(value), {}) is not GENERIC or is_generator(value)) and not leads_to_refused([value])


def simulation_state(obj: Any) -> tuple[Any, ...]:
    return _state(obj) if _is_handle(obj) else storable_state(obj)


def simulation_mark(obj: Any) -> Any:
    return object() if _is_handle(obj) else storable_mark(obj)


def arrive(obj: Any, state: Simulated) -> None:
    _waiting.append((obj, state))


def begin() -> None:
    """Bring what has arrived to where it stood, when all has."""
    found, _waiting[:] = _waiting[:], []
    for obj, state in found:
        _bring(obj, state, unseen="")  # which was told when it left


def fill_simulation(obj: Any, state: Any) -> None:
    if isinstance(state, Simulated):
        _bring(obj, state, unseen=str(state.stood))
    else:
        fill_storable(obj, state)


def _bring(obj: Any, state: Simulated, *, unseen: str) -> None:
    why = unseen
    if isinstance(state.stood, str):
        make_again(obj, state.args, state.keywords)
    else:
        try:
            take(obj, state.stood)
            why = ""
        except Forgotten as error:
            why = str(error)
    vars(obj).update(state.own)
    if why:
        _remarks.append(
            f"The simulation ({type(obj).__qualname__}) is not quite where it was, for {why}: reset it first."
        )


def said() -> tuple[str, ...]:
    """What is to be told of those that were brought somewhere; once."""
    found = tuple(dict.fromkeys(_remarks))
    _remarks.clear()
    return found


SIMULATION = Kind(reduce=reduce_simulation, state=simulation_state, fill=fill_simulation, mark=simulation_mark)
