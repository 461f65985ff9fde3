"""What the lab's policy says of one user, and what of theirs waits because of it: `gpufit lab policy`."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..devices.device import Device
from ..devices.here import read_devices
from ..errors import BadOption, DeviceError
from ..lab import open_lab
from ..lab.policy import SETTINGS, Allowed, Policy, UserState, barred, state_at, whom, words
from ..lab.policy_file import load_policy, policy_path
from ..lab.reasons import Waiting
from ..lab.view import LabReader, LabView
from ..settings import Settings
from ..system.users import user_name
from ..units import device_words, format_bytes, format_duration


@dataclass(frozen=True)
class PolicyView:
    """One user under the policy, at this moment."""

    user: str
    who: str  # the same, or "you"
    policy: Policy
    allowed: Allowed
    state: UserState
    closed: Mapping[str, str]  # by device, in words: why nothing starts there
    waiting: Mapping[str, Waiting | None]  # by job; None: it is about to start

    @property
    def not_now(self) -> str:
        return barred(self.allowed.policy, self.state, self.who)

    def to_json(self) -> str:
        limits = vars(self.allowed.policy) | {"quiet": [str(one) for one in self.allowed.policy.quiet]}
        by = self.allowed.by
        settings = {
            name: {"value": limits[name], "words": words(self.allowed.policy, name), "by": by.get(name, "")}
            for name in SETTINGS
        }
        record: dict[str, Any] = {
            "user": self.user,
            "warning": self.policy.warning,
            "settings": settings,
            "used": {name: getattr(self.state, name) for name in ("hours", "devices", "memory")},
            "not_now": self.not_now,
            "closed": dict(self.closed),
            "waiting": {name: str(why) if why else "" for name, why in self.waiting.items()},
        }
        return json.dumps(record, indent=1)

    def to_text(self) -> str:
        return "\n".join([*self._warnings(), *self._settings(), *self._of_the_lab(), *self._waiting()])

    def _warnings(self) -> list[str]:
        return [self.policy.warning] if self.policy.warning else []

    def _settings(self) -> list[str]:
        used = {"hours": f"{self.state.hours:.1f} used", "devices": f"{self.state.devices} held"}
        used["memory"] = f"{format_bytes(self.state.memory)} held"
        lines = [f"{policy_path()} for {self.user}:"]
        for name in SETTINGS:
            by = self.allowed.by.get(name)
            now = f"; {used[name]}" if name in used else ""
            lines.append(f"  {name:<13} {words(self.allowed.policy, name)}{now}{f' ({by})' if by else ''}")
        return lines

    def _of_the_lab(self) -> list[str]:
        policy = self.policy
        everybody = (
            f"For everybody: Use counts half after {format_duration(policy.half_life)}. A claim costs"
            f" {format_duration(policy.entry_penalty)} of use. {policy.reserve} % of each GPU stay free. Whoever's turn"
            f" ends is told {format_duration(policy.notice)} before."
        )
        return [
            everybody,
            *(f"{device} {why}." for device, why in self.closed.items()),
        ]

    def _waiting(self) -> list[str]:
        whose = "your" if self.who == "you" else f"{self.who}'s"
        lines = [f"None of {whose} jobs starts now: {self.not_now}."] if self.not_now else []
        for name, why in self.waiting.items():
            lines.append(f"{name} waits: {why}." if why else f"{name} is about to start.")
        return lines


def policy_view(settings: Settings, user: str = "") -> PolicyView:
    """What applies to a user; to who asks, where none is named."""
    uid = _uid(user) if user else os.geteuid()
    policy, now = load_policy(), time.time()
    lab = open_lab(settings)
    reader = LabReader(lab)
    devices: Sequence[Device] = ()
    try:
        devices = read_devices(settings)
    except DeviceError:
        pass  # `gpufit status` says why
    view = reader.view(devices)
    held = [claim.hold for claim in view.claims if claim.uid == uid]
    state = replace(
        state_at(now, reader.hours(reader.snapshot(), policy, now).get(uid, 0.0)),
        devices=sum(hold.count for hold in held),
        memory=sum(hold.bytes * hold.count for hold in held),
    )
    closed = {_words(device): why for device in devices if (why := policy.closed(device))}
    name, who = user_name(uid), whom(uid, os.geteuid())
    return PolicyView(name, who, policy, policy.allowed(uid), state, closed, _waits(view, uid))


def _words(device: Device) -> str:
    return device_words([device.label])


def _waits(view: LabView, uid: int) -> dict[str, Waiting | None]:
    mine = ((ticket, why) for ticket, why in zip(view.queue, view.reasons, strict=True) if ticket.uid == uid)
    return {ticket.request.name: why for ticket, why in mine}


def _uid(user: str) -> int:
    try:
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise BadOption(f"This machine knows no user {user!r}. Name one as `getent passwd` lists them.") from None
