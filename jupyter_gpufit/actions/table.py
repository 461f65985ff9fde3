"""Status and plans as text, for notebooks and terminals alike; pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ..devices.device import Device
from ..jobs.state import GOING
from ..jobs.verbs import may
from ..lab.history import History
from ..units import format_bytes, format_duration
from .columns import columns
from .status import ClaimView, JobView, RoomView, Status, TicketView

BAR = 12  # characters
LABEL = 40  # characters


def status(status: Status, width: int = 0) -> str:
    """Devices, who holds them, who waits, and the user's jobs that have not ended."""
    parts = [_devices(status, width) if status.devices else status.problem or "No devices."]
    if status.devices and status.problem:
        parts.append(status.problem)
    if status.claims:
        parts.append(_claims(status.claims, status.time, width))
    parts += [_wished(claim) for claim in status.claims if claim.mine and claim.asked_by]
    if status.queue:
        parts.append(_queue(status.queue, status.time, width))
    running = [job for job in status.jobs if job.state not in ("done", "failed", "stopped", "lost")]
    parts.append(_jobs(running, status.time, width) if running else "You have no running jobs.")
    parts += status.remarks
    return "\n\n".join(parts)


def queue(status: Status, width: int = 0) -> str:
    """Who waits, in the order of service."""
    parts = [_queue(status.queue, status.time, width) if status.queue else status.problem or "Nobody waits."]
    return "\n\n".join([*parts, *status.remarks])


def history(history: History) -> str:
    """Device-hours as bars."""
    span = f"{history.days:g} days" if history.days != 1 else "day"
    if not history.rows:
        return "\n\n".join([f"Nothing was used in the last {span}.", *history.remarks])
    most = max(row.hours for row in history.rows)
    rows = [(row.name, f"{row.hours:9.2f}", _bar(row.hours, most, 2 * BAR), str(row.claims)) for row in history.rows]
    total = sum(row.hours for row in history.rows)
    summed = f"{total:.2f} {history.unit} in the last {span} (since the machine's last start, if that is later)."
    heads = (str(history.by), history.unit, "", "claims")
    return "\n\n".join([columns([heads, *rows]), summed, *history.remarks])


def jobs(jobs: Sequence[JobView], now: float, width: int = 0) -> str:
    """The user's jobs, oldest first."""
    return _jobs(jobs, now, width) if jobs else "You have no jobs yet. Put %%gpufit train on top of a cell."


def plan(status: Status, gpu: str, memory: int | None, sizes: Mapping[str, int], gpus: tuple[int, int] = (1, 1)) -> str:
    """What a dry run says: what would travel, and what would be asked for."""
    lines = ["Nothing was started. These variables would go to the worker:"]
    rows = [(name, format_bytes(size)) for name, size in sorted(sizes.items(), key=lambda item: -item[1])]
    lines.append(columns([("name", "bytes"), *rows]) if rows else "  none")
    asked = format_bytes(memory) if memory is not None else "a whole device"
    each = f" on each of {gpus[0] if gpus[0] == gpus[1] else '{}-{}'.format(*gpus)} devices" if gpus[1] > 1 else ""
    lines.append(f"\nThe job would ask for {asked}{each}{f' on {gpu}' if gpu else ''}. The devices:")
    lines.append(_devices(status, 0) if status.devices else status.problem)
    return "\n".join(lines)


def _devices(status: Status, width: int) -> str:
    rows = [("device", "name", "memory", "used of total", "busy", "left for jobs", "who")]
    for device, room in zip_longest(status.devices, status.rooms):
        # A slot has no driver that would tell what is used: what is claimed counts.
        used = device.total - room.free if room and device.kind == "slot" else device.used
        memory = f"{format_bytes(used)} of {format_bytes(device.total)}"
        busy = f"{device.utilisation} %" if device.utilisation is not None else "-"
        who = device.problem or _who(device, status.claims)
        left = _left(room) if room and not device.problem else "-"
        rows.append((device.label, device.name, _bar(used, device.total, BAR), memory, busy, left, who))
    return columns(rows, width)


def _left(room: RoomView) -> str:
    return f"{format_bytes(room.free)}, kept for {room.held_for}" if room.held_for else format_bytes(room.free)


def _who(device: Device, claims: Sequence[ClaimView]) -> str:
    """Those who hold a claim on the device, or else the processes on it."""
    holders = [claim.words for claim in claims if device.label in claim.devices]
    users = [f"{process.user} {_amount(process.bytes)}" for process in device.processes]
    return ", ".join(holders or users) or "-"


def _claims(claims: Sequence[ClaimView], now: float, width: int) -> str:
    rows = [("held by", "job", "device", "memory", "for", "what", "claim")]
    for claim in claims:
        memory = f"{format_bytes(claim.bytes)}{' alone' if claim.alone else ''}"
        held = format_duration(max(0.0, now - claim.since))
        rows.append((_you(claim), claim.name, ", ".join(claim.devices), memory, held, _what(claim), claim.id))
    return columns(rows, width)


def _what(claim: ClaimView) -> str:
    """Of a notebook's path its end, which tells the most; below one's own home from there."""
    if not claim.label.endswith(".ipynb"):
        return _short(claim.label)
    home = f"{os.path.expanduser('~')}/"
    path = f"~/{claim.label.removeprefix(home)}" if claim.mine and claim.label.startswith(home) else claim.label
    return path if len(path) <= LABEL else f"…{path[1 - LABEL :]}"


def _queue(queue: Sequence[TicketView], now: float, width: int) -> str:
    rows = [("", "waits", "job", "wants", "for", "starts", "why")]
    for ticket in queue:
        waited = format_duration(max(0.0, now - ticket.since))
        starts, unknown = _starts(ticket.expected)
        why = "; ".join(filter(None, [ticket.reason, unknown]))
        rows.append((f"{ticket.position}.", _you(ticket), ticket.name, ticket.wants, waited, starts, why))
    return columns(rows, width)


def _starts(expected: str) -> tuple[str, str]:
    """ "in 5 min to 8 min"; and, where it cannot be said, the sentence why, which a narrow column would cut."""
    when, _, why_not = expected.partition(": ")
    if not when.startswith("starts "):
        return "-", expected
    return when.removeprefix("starts "), why_not


def _you(what: ClaimView | TicketView) -> str:
    return f"{what.user} (you)" if what.mine else what.user


def _wished(claim: ClaimView) -> str:
    who, where = " and ".join(claim.asked_by), ", ".join(claim.devices)
    return f"Please: {who} would like you to release {claim.name} ({where}). If you can: gpufit release {claim.name}"


def _jobs(jobs: Sequence[JobView], now: float, width: int) -> str:
    spills = any(map(_host, jobs))
    rows: list[tuple[str, ...]] = [
        ("job", "id", "state", "device", *["of the host"] * spills, "step", "since", "saved", "reason")
    ]
    for job in jobs:
        step = f"{job.step:,}" if job.step else "-"
        since = format_duration(max(0.0, now - job.since))
        host = [_host(job) or "-"] * spills
        rows.append((job.name, job.id, job.state, job.device or "-", *host, step, since, _saved(job, now), _why(job)))
    return columns(rows, width)


def _host(job: JobView) -> str:
    """What its plan has taken of the host's memory."""
    host = job.memory.host if job.memory is not None and job.state in GOING else 0
    return format_bytes(host) if host else ""


def _saved(job: JobView, now: float) -> str:
    if job.checkpoint is None:
        return "-"
    return f"{job.checkpoint.words}, {format_duration(max(0.0, now - job.checkpoint.time))} ago"


def _why(job: JobView) -> str:
    """The reason for its state, and what can be done about it."""
    if job.calls is not None:
        return ", ".join(filter(None, [job.reason, job.calls.words]))
    kept = job.checkpoint is not None or job.kind == "model"
    if not may("resume", job.state, saved=kept) or job.state == "released":
        return job.reason  # of a released job, the reason says it
    return f"{job.reason}; `gpufit resume {job.name}` goes on" if job.reason else f"`gpufit resume {job.name}` goes on"


def _amount(count: int | None) -> str:
    return "?" if count is None else format_bytes(count)


def _short(text: str) -> str:
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def _bar(part: float, whole: float, length: int) -> str:
    filled = min(length, round(length * part / whole)) if whole else 0
    return "█" * filled + "░" * (length - filled)
