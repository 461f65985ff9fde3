"""What an administrator can do from the page. Nothing here ends a process: holders are asked, or ordered, and act.

An order is a file of root's in the lab, which the holder obeys by saving its job and leaving its device. So the service
must run as root for it, as JupyterHub's own services do where the hub starts users' servers by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ..actions.status import ClaimView
from ..devices.device import find_device
from ..devices.here import read_devices
from ..errors import GpufitError, NoSuchHold
from ..lab import Claim, open_lab
from ..lab.ledger import LedgerReader
from ..lab.policy_file import drained, drained_path
from ..lab.room import lab_trouble
from ..lab.standing import Standing, read_standings
from ..lab.wishes import forget_old_wishes, make_wish
from ..settings import Settings
from ..system.files import write_whole
from ..system.users import user_name
from ..units import device_words

Deed = Callable[[Settings, str], str]


def ask(settings: Settings, id: str) -> str:
    """Ask a claim's owner to release it."""
    return _wish(settings, id, order=False)


def release(settings: Settings, id: str) -> str:
    """Have a claim's holder save its job and leave the device."""
    if os.geteuid() != 0:
        return "Not done: only root's orders are obeyed, and this service does not run as root."
    return _wish(settings, id, order=True)


def drain(settings: Settings, label: str) -> str:
    """Have nothing start on a device any more, and what can be saved leave it, as the policy's own `drained` does."""
    return _drain(find_device(read_devices(settings), label).label, away=False)


def fill(settings: Settings, label: str) -> str:
    """Let jobs start there again; also on a device that is gone by now."""
    return _drain(label, away=True)


DEEDS: Mapping[str, Deed] = {"ask": ask, "release": release, "drain": drain, "fill": fill}


def _drain(label: str, *, away: bool) -> str:
    if os.geteuid() != 0:
        return "Not done: only root can drain devices, and this service does not run as root."
    path = drained_path()
    before = drained(path)
    if away != (label in before):
        return (
            f"{device_words([label])} {'is not drained here; the policy may say so' if away else 'is drained already'}."
        )
    names = [name for name in before if name != label] if away else [*before, label]
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(path, "".join(f"{name}\n" for name in names))
        path.chmod(0o644)
    except OSError as error:
        return f"Not done: {path} cannot be written ({error.strerror})."
    where = device_words([label])
    if away:
        return f"Jobs start on {where} again."
    return f"Nothing starts on {where} any more. A job that can be saved is saved and leaves it by itself."


def _wish(settings: Settings, id: str, *, order: bool) -> str:
    lab = open_lab(settings)
    snapshot = LedgerReader(lab.path).read()
    claim = next((claim for claim in snapshot.claims if claim.id == id), None)
    if claim is None:
        raise NoSuchHold(id, tuple(claim.id for claim in snapshot.claims))
    try:
        forget_old_wishes(lab.path, snapshot.claims)
        new = make_wish(lab.path, claim, order=order)
    except OSError as error:
        return f"Not done: {lab_trouble(lab, error)}."
    return _said(claim, new, order, read_standings(lab.path, [claim]).get(claim.id))


def _said(claim: Claim, new: bool, order: bool, standing: Standing | None) -> str:
    whose = f"{user_name(claim.uid)}'s {claim.request.name}"
    if not new:
        if order:
            return f"{whose} has already been ordered to leave its device."
        return f"{user_name(claim.uid)} has already been asked to release {claim.request.name}."
    if order and standing is None:  # a command, a model, or a training that has not begun: it obeys once it runs
        return (
            f"{whose} is told. A training is saved and leaves its device once it runs; a command or a deployed model"
            " can only be ended by its owner."
        )
    if order and standing is not None and not standing.yields:
        return f"{whose} is told; its worker says that it cannot be saved now, so only its owner can end it."
    if order:
        return f"{whose} will be saved and leave its device at its next safe point."
    return f"{user_name(claim.uid)} is asked to release {claim.request.name}. The job runs on until they do."


def done(deed: str, settings: Settings, id: str) -> str:
    """Do it, and say what came of it; a refusal is an answer, too."""
    try:
        return DEEDS[deed](settings, id)
    except GpufitError as error:
        return f"Not done: {error}"


def target_name(claims: tuple[ClaimView, ...], id: str) -> str:
    """What people call what the deed is about."""
    return next((f"{claim.user}'s {claim.name}" for claim in claims if claim.id == id), id)
