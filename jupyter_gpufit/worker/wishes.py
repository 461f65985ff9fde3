"""What a front may wish of a job: to be saved, to leave its device, to go on elsewhere. Whether now: lifecycle.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..devices.device import Device, find_device
from ..devices.here import read_devices_async
from ..errors import LeavesAlready, NotNow
from ..jobs.protocol import Answer, Wish
from ..jobs.record import Record
from ..lab import Granted, Waiting, claim_now, open_lab
from ..train import Moved, Released
from ..units import device_words
from .lifecycle import Asked, refusal
from .saving import Saver
from .training import Training


async def answer(training: Training, saver: Saver, wish: Wish, to: str, record: Record, after: int) -> Answer:
    """Have it done: what will happen, and its number in the journal `after` what stands there now."""
    if why := record.why_not(wish):  # the front asked the same, of a record that may be old
        raise NotNow(training.name, why)
    _check(training, wish)
    data: dict[str, Any] = {"epoch": record.epoch, "after": after}
    name = training.name
    match wish:
        case "checkpoint":
            training.take(Asked("checkpoint"))
            number, words = saver.ask("asked"), "is saved at its next safe point, and goes on."
        case "release":
            place = None if record.checkpoint is None else _released(name, record.checkpoint.step)
            training.take(Asked("release", place=place))
            if training.life.given_up is not None:
                return Answer(True, f"{name} gives up its place; its checkpoint stays.", data)
            if not training.life.runs:
                return Answer(True, f"{name} is saved, and leaves its device.", data)
            number = saver.ask("release", lambda step: _released(name, step))
            words = "is saved at its next safe point, and then leaves its device."
        case "move":
            number, there = await _move(training, saver, to)
            words = f"holds {there}, and moves there from its next safe point."
    return Answer(True, f"{name} {words}", {**data, "number": number})


def _check(training: Training, wish: Wish) -> None:
    if (refused := refusal(training.life, wish)) is not None:
        raise LeavesAlready(training.name) if refused.leaves else NotNow(training.name, refused.why)


def _released(name: str, step: int) -> Released:
    """The outcome, in the words that the notebook shows."""
    return Released(f"released at step {step:,}; `%gpufit resume {name}` goes on")


async def _move(training: Training, saver: Saver, to: str) -> tuple[int, str]:
    """Claim the device, then have the job saved and gone on with there; the checkpoint's number, and the device."""
    devices = await read_devices_async(training.settings)
    assert training.request is not None
    targets = _targets(devices, to, training.granted, training.name, fitted=bool(training.fit.plan.parts))
    many = len(targets) if to else len(training.granted.devices)
    needed = training.request.needed if many >= training.fit.devices else None  # fewer have more of a batch each
    request = replace(training.request, gpu=",".join(targets), count=many, most=many, needed=needed)
    lab, held = open_lab(training.settings, waits=True), None
    if many == 1 and (fit := training.fit_on(_named(devices, targets))) is not None:
        wanted = replace(request, needed=fit.changed.memory, host=fit.plan.host)
        held = await claim_now(lab, wanted, training.look, training.granted)
    if held is None or (isinstance(held, Waiting) and training.fit.plan.parts):
        held = await claim_now(lab, request, training.look, training.granted)
    if isinstance(held, Waiting):
        busy = f"{to} is not free right now" if to else "no other device is free right now"
        raise NotNow(training.name, f"{busy} ({held}).")
    try:
        _check(training, "move")  # the training went on while the claim was asked for
    except BaseException:
        held.give_back()
        raise
    there = device_words([device.label for device in held.granted.devices])
    training.take(Asked("move", there))
    return saver.ask("move", lambda step: Moved(held.granted), held.give_back), there


def _named(devices: Sequence[Device], uuids: Sequence[str]) -> list[Device]:
    return [device for device in devices if device.uuid in uuids]


def _targets(devices: Sequence[Device], to: str, here: Granted, name: str, *, fitted: bool) -> list[str]:
    """The devices to which the job may go, by UUID; those that are named, all of them. `fitted`: it runs by a plan."""
    own = {device.uuid for device in here.devices}
    if to:
        found = {device.uuid: device.label for device in (find_device(devices, word) for word in to.split(","))}
        if found.keys() == own:
            raise NotNow(name, f"it is on {device_words(list(found.values()))} already.")
        if fitted and len(found) > 1:
            raise NotNow(name, "it was made to fit on one device, and moves to one.")
        return list(found)
    others = [device.uuid for device in devices if device.uuid not in own and not device.problem]
    if not others:
        raise NotNow(name, "there is no other device here.")
    if len(others) < len(own):
        raise NotNow(
            name,
            f"it is on {len(own)} devices, and here {'is' if len(others) == 1 else 'are'} only {len(others)} more."
            " Name with --to where it goes; its own may be among them.",
        )
    return others
