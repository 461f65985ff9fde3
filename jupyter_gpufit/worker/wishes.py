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
from .machine import WorkerMachine
from .saving import labels


async def answer(machine: WorkerMachine, verb: WorkerVerb, to: str, began: dict[str, int]) -> Answer:
    """Have it done: what will happen, and, beside where the journal `began`, the wish's number in it."""
    name = machine.name
    if verb == "checkpoint":
        number, words = checkpoint(machine), f"{name} is saved at its next safe point, and goes on."
    elif verb == "release":
        number, words = release(machine), f"{name} is saved at its next safe point, and then leaves its device."
    else:
        number, there = await move(machine, to)
        words = f"{name} holds {there}, and moves there from its next safe point."
    return Answer(True, words, {**began, "number": number})


def checkpoint(machine: WorkerMachine) -> int:
    """Have the job saved at its next safe point; the checkpoint's number."""
    if machine.saver.leaving is None:
        machine.report(StateChange("saving", "at its next safe point", labels(machine.granted)))
    return machine.saver.ask("asked")


def release(machine: WorkerMachine) -> int:
    """Have it saved, and leave the device."""
    if machine.saver.leaving != "release":
        _refuse_if_leaving(machine)
    machine.report(StateChange("saving", "at its next safe point, to be released", labels(machine.granted)))
    return machine.saver.ask("release", lambda step: released(machine.name, step))


def released(name: str, step: int) -> Released:
    """The outcome, in the words that the notebook shows."""
    return Released(f"released at step {step:,}; `%gpufit resume {name}` goes on")


async def move(machine: WorkerMachine, to: str) -> tuple[int, str]:
    """Claim the device, then have the job saved and gone on with there; the checkpoint's number, and the device."""
    _refuse_if_leaving(machine)
    devices = await read_devices_async(machine.settings)
    request = replace(machine.request, gpu=_targets(devices, to, machine.granted, machine.name))
    held = await claim_now(open_lab(machine.settings), request, machine.look, machine.granted)
    if isinstance(held, Waiting):
        which = f"{to} is not" if to else "no other device is"
        raise NotNow(machine.name, f"{which} to be had at once ({held}).")
    if not machine.running or machine.saver.leaving is not None:  # since the claim was asked for
        held.give_back()
        raise LeavesAlready(machine.name)
    there = labels(held.granted)
    machine.report(StateChange("moving", f"to {there}, from its next safe point", labels(machine.granted)))
    return machine.saver.ask("move", lambda step: Moved(held.granted), held.give_back), there


def _refuse_if_leaving(machine: WorkerMachine) -> None:
    if machine.saver.leaving is not None:
        raise LeavesAlready(machine.name)


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
