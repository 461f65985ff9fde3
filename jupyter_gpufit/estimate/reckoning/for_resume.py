"""What a job will need that goes on from a checkpoint: what is known of it by then; pure.

It is not traced again: its variables are in the checkpoint, and are opened on the device only. What it took so far may
be less than what it will take (an evaluation may be still to come), so that an estimate holds where it says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...devices.device import Device
from ...jobs.job import Options
from ...lab.place import Space
from ...units import MiB, format_bytes
from ..need import Needed

RESERVE = 0.1  # of what was measured on a GPU
RESERVE_ON_SLOT = 0.25  # whose peak is only looked at now and then
SLOT_LEAST = 512 * MiB  # imports, lists that grow, what malloc keeps: beside small tensors, Python's own is not small
STEPS = 100  # after fewer, what it took so far tells too little of what it will take
_NOT_YET = "nobody can tell yet what it takes"


@dataclass(frozen=True)
class SoFar:
    """What is known of the job's runs until now."""

    claimed: int | None = None  # bytes that its last run was to claim; None: the whole device
    peak: int = 0  # bytes it took at the most, context included; 0: not known
    steps: int = 0
    outgrew: int = 0  # bytes that turned out too few
    had_more: bool = False  # devices, each of which had a smaller part of a batch


def needed_again(asked: int | None, options: Options, so_far: SoFar, devices: Sequence[Device]) -> Needed:
    """What to claim. `asked`: what its user says now; `devices`: those on which it may run."""
    if asked is not None:
        return Needed(asked, f"needs {format_bytes(asked)}: so --memory says")
    if options.exclusive:
        return Needed(None, "needs a whole device: it was started with --exclusive")
    if so_far.had_more:
        return Needed(None, "needs a whole device: it ran on more of them, and nobody can tell what fewer take")
    if so_far.outgrew and so_far.peak <= so_far.outgrew:
        return Needed(None, f"needs a whole device: {format_bytes(so_far.outgrew)} were too little")
    return within(_known(options, so_far, devices), devices)


def _known(options: Options, so_far: SoFar, devices: Sequence[Device]) -> Needed:
    claimed, peak = so_far.claimed, so_far.peak
    if claimed == 0:
        return Needed(0, "uses no GPU")
    if claimed is not None and claimed == options.memory and not so_far.outgrew:
        return Needed(claimed, f"needs {format_bytes(claimed)}: it was started with --memory")
    on_slot = any(device.kind == "slot" for device in devices)
    measured = _with_reserve(peak, RESERVE_ON_SLOT if on_slot else RESERVE, devices)
    least = min(SLOT_LEAST, _most(devices)) if on_slot else 0
    if 0 < max(measured, claimed or 0) < least and (claimed is not None or so_far.steps >= STEPS):
        told = _so_far(peak) if peak else f"{format_bytes(claimed or 0)} were claimed before"
        return Needed(least, f"needs {format_bytes(least)}, the least on a slot: {told}")
    if measured > (claimed or 0) and (claimed is not None or so_far.steps >= STEPS):
        return Needed(measured, f"needs {format_bytes(measured)}: {_so_far(peak)}, and a reserve")
    if claimed is None:
        early = f"{_so_far(peak)}, which tells too little before step {STEPS}" if peak else _NOT_YET
        return Needed(None, f"needs a whole device, as before: {early}")
    took = f", {_so_far(peak)}" if peak else ""
    return Needed(claimed, f"needs {format_bytes(claimed)}: as before{took}")


def _with_reserve(peak: int, reserve: float, devices: Sequence[Device]) -> int:
    """No more than a device has, where what was measured fits there: what we add to it refuses nobody."""
    most, wanted = _most(devices), round(peak * (1 + reserve))
    return most if peak <= most < wanted else wanted


def _most(devices: Sequence[Device]) -> int:
    return max((space.usable + space.reserve for space in map(Space, devices) if not space.device.problem), default=0)


def _so_far(peak: int) -> str:
    return f"{format_bytes(peak)} measured so far"


def larger(claimed: int, devices: Sequence[Device]) -> Needed | None:
    """What to claim for a job that ran out of so many bytes: twice that, or the whole device. None: it had that."""
    usable = max((Space(device).usable for device in devices if not device.problem), default=0)
    if claimed >= max((device.total for device in devices if not device.problem), default=0):
        return None
    too_few = f"{format_bytes(claimed)} were too little"
    if 2 * claimed > usable:
        return Needed(None, f"needs a whole device: {too_few}")
    return Needed(2 * claimed, f"needs {format_bytes(2 * claimed)}: {too_few}")


def within(needed: Needed, devices: Sequence[Device]) -> Needed:
    """The whole device where it needs a part of the reserve, which is for neighbours: alone it fits there."""
    spaces = [Space(device) for device in devices if not device.problem]
    if needed.memory is None or any(needed.memory <= space.usable for space in spaces):
        return needed
    if not any(needed.memory <= space.usable + space.reserve for space in spaces):
        return needed  # which is refused
    return Needed(None, f"{needed.reason}; tight, so it claims a whole device")
