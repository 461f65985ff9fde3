"""What a front may wish of a running job: to be saved, to leave its device, to go on elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..devices.device import Device, find_device
from ..devices.here import read_devices_async
from ..errors import LeavesAlready, NotNow
from ..jobs.events import StateChange
from ..jobs.protocol import Answer, WorkerVerb
from ..lab import Granted, Waiting, claim_now, open_lab
from ..train import Moved, Released
from .saving import Saver, labels
from .training import Training


async def answer(training: Training, saver: Saver, verb: WorkerVerb, to: str, began: dict[str, int]) -> Answer:
    """Have it done: what will happen, and, beside where the journal `began`, the wish's number in it."""
    name = training.name
    if verb == "checkpoint":
        number, words = checkpoint(training, saver), f"{name} is saved at its next safe point, and goes on."
    elif verb == "release":
        number, words = release(training, saver), f"{name} is saved at its next safe point, and then leaves its device."
    else:
        number, there = await move(training, saver, to)
        words = f"{name} holds {there}, and moves there from its next safe point."
    return Answer(True, words, {**began, "number": number})


def checkpoint(training: Training, saver: Saver) -> int:
    """Have the job saved at its next safe point; the checkpoint's number."""
    if saver.leaving is None:
        training.report(StateChange("saving", "at its next safe point", labels(training.granted)))
    return saver.ask("asked")


def release(training: Training, saver: Saver) -> int:
    """Have it saved, and leave the device."""
    if saver.leaving != "release":
        _refuse_if_leaving(training, saver)
    training.report(StateChange("saving", "at its next safe point, to be released", labels(training.granted)))
    return saver.ask("release", lambda step: released(training.name, step))


def released(name: str, step: int) -> Released:
    """The outcome, in the words that the notebook shows."""
    return Released(f"released at step {step:,}; `%gpufit resume {name}` goes on")


async def move(training: Training, saver: Saver, to: str) -> tuple[int, str]:
    """Claim the device, then have the job saved and gone on with there; the checkpoint's number, and the device."""
    _refuse_if_leaving(training, saver)
    devices = await read_devices_async(training.settings)
    assert training.request is not None
    request = replace(training.request, gpu=_targets(devices, to, training.granted, training.name))
    held = await claim_now(open_lab(training.settings), request, training.look, training.granted)
    if isinstance(held, Waiting):
        which = f"{to} is not" if to else "no other device is"
        raise NotNow(training.name, f"{which} to be had at once ({held}).")
    if not training.running or saver.leaving is not None:  # since the claim was asked for
        held.give_back()
        raise LeavesAlready(training.name)
    there = labels(held.granted)
    training.report(StateChange("moving", f"to {there}, from its next safe point", labels(training.granted)))
    return saver.ask("move", lambda step: Moved(held.granted), held.give_back), there


def _refuse_if_leaving(training: Training, saver: Saver) -> None:
    if saver.leaving is not None:
        raise LeavesAlready(training.name)


def _targets(devices: Sequence[Device], to: str, here: Granted, name: str) -> str:
    """The devices to which the job may go, as a request names them."""
    own = {device.uuid for device in here.devices}
    if to:
        found = find_device(devices, to)
        if found.uuid in own:
            raise NotNow(name, f"it is on {found.label} already.")
        return found.uuid
    others = [device.uuid for device in devices if device.uuid not in own and not device.problem]
    if not others:
        raise NotNow(name, "there is no other device here.")
    return ",".join(others)
