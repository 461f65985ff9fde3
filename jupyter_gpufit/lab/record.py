"""What a ticket and a claim say, and the JSON in which they say it.

Whoever reads it does not believe it: the owner and the time of a file come from the kernel, and the text inside is only
what its writer wants. A text that cannot be read is refused as a whole.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1  # a later format may add keys; what these keys mean stays
LONGEST = 16 << 10  # bytes of one file; more is junk
MOST_DEVICES = 64
MOST_CLAIMS = 100  # of one user, that are reckoned with one by one
MOST_BYTES = 1 << 60
LONGEST_WORD = 200  # characters


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a job asks of the lab."""

    job_id: str
    name: str
    label: str = ""  # what people recognise it by: its notebook, its command line
    needed: int | None = None  # bytes on each device; None: the whole device
    exclusive: bool = False  # no neighbours on the device, whatever it needs
    gpu: str = ""  # labels, indices or UUIDs, separated by commas; empty: any device
    count: int = 1  # devices, all or nothing
    most: int = 1  # devices that it takes where more than `count` are free
    host: int = 0  # bytes of the host's memory that its plan takes

    @property
    def alone(self) -> bool:
        return self.exclusive or self.needed is None


@dataclass(frozen=True, kw_only=True)
class TicketWriter:
    """The process that published the file."""

    pid: int  # as its own /proc numbers it
    start_time: int  # clock ticks since boot
    boot: str
    view: int  # the pid namespace in which the pid is to be read; 0: unknown
    write_lock: bool = False  # it holds the file by a write lock too, which nobody else can take (see locks)


@dataclass(frozen=True, kw_only=True)
class Hold:
    """What a claim takes."""

    devices: tuple[str, ...]  # UUIDs
    bytes: int  # on each of them
    alone: bool  # nobody else may be there
    share: float = 1.0  # of a device, summed over the devices: what the claim costs its user per second
    began: int = 0  # ns since 1970: of a claim in the place of an earlier one, when that began, by its holder's word

    @property
    def count(self) -> int:
        """How many devices."""
        return len(self.devices)

    def among(self, uuids: Collection[str]) -> list[str]:
        """Those of these devices that it takes."""
        return [uuid for uuid in self.devices if uuid in uuids]


@dataclass(frozen=True, kw_only=True)
class UnreadHold(Hold):
    """What a claim takes that nobody can read: all of the devices that its name has the marks of."""

    marks: int  # see `device_mark`

    @property
    def count(self) -> int:
        return self.marks.bit_count()

    def among(self, uuids: Collection[str]) -> list[str]:
        return [uuid for uuid in uuids if self.marks & device_mark(uuid)]


def device_mark(uuid: str) -> int:
    """One bit of 32 for a device. A claim's name has those of its devices, so that it says a little by itself.

    Two devices may have the same bit: then a claim that cannot be read takes both, rather than none.
    """
    return 1 << (zlib.crc32(uuid.encode()) % 32)


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A job's place in the queue, as the kernel vouches for it."""

    id: str  # the file's name
    uid: int
    since: int  # ns since 1970
    tie: int  # decides between equal times; nobody can choose it
    pid: int  # by the writer's word, as are these two; see `owner.is_its_writer`
    started: int = 0  # clock ticks since boot; 0: unknown
    view: int = 0  # the pid namespace in which the pid is to be read; 0: unknown
    request: Request


@dataclass(frozen=True, kw_only=True)
class Claim(Ticket):
    """A job's hold on its devices, as the kernel vouches for it."""

    hold: Hold

    @property
    def began(self) -> int:
        """Since when its holder is there, in ns since 1970. Whoever lies can only make their turn end earlier."""
        return min(self.since, self.hold.began or self.since)


def encode(request: Request, writer: TicketWriter, hold: Hold | None = None) -> bytes:
    """The text of a ticket, or with `hold` of a claim; labels are cut so that it always stays readable."""
    words = {key: _cut(value) if isinstance(value, str) else value for key, value in vars(request).items()}
    record = {"format": FORMAT, "request": words, "writer": vars(writer)}
    if hold is not None:
        record["hold"] = vars(hold)
    return json.dumps(record).encode()


def decode(text: bytes) -> tuple[Request, TicketWriter, Hold | None]:
    """Read what `encode` wrote; raise ValueError for anything else."""
    try:
        record = json.loads(text)
        hold = record.get("hold")
        return (
            _request(record["request"]),
            _writer(record["writer"]),
            None if hold is None else _hold(hold),
        )
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a record of the lab: {error!r}") from error


def _request(record: Mapping[str, Any]) -> Request:
    return Request(
        job_id=word(record["job_id"]),
        name=word(record["name"]),
        label=word(record["label"]),
        needed=None if record["needed"] is None else _number(record["needed"], 1, MOST_BYTES),
        exclusive=_truth(record["exclusive"]),
        gpu=word(record["gpu"]),
        count=_number(record["count"], 1, MOST_DEVICES),
        most=_number(record.get("most", 1), 1, MOST_DEVICES),
        host=_number(record.get("host", 0), 0, MOST_BYTES),
    )


def _writer(record: Mapping[str, Any]) -> TicketWriter:
    return TicketWriter(
        pid=_number(record["pid"], 1, 1 << 32),
        start_time=_number(record["start_time"], 0, 1 << 63),
        boot=word(record["boot"]),
        view=_number(record["view"], 0, 1 << 63),
        write_lock=_truth(record.get("write_lock", False)),
    )


def _hold(record: Mapping[str, Any]) -> Hold:
    devices = record["devices"]
    if not isinstance(devices, list) or not 1 <= len(devices) <= MOST_DEVICES:
        raise ValueError(f"{str(devices)[:50]} are not devices")
    share = record["share"]
    if not isinstance(share, int | float) or not 0 <= share <= MOST_DEVICES:  # NaN compares false
        raise ValueError(f"{str(share)[:50]} is not a share")
    return Hold(
        devices=tuple(dict.fromkeys(word(device) for device in devices)),
        bytes=_number(record["bytes"], 0, MOST_BYTES),
        alone=_truth(record["alone"]),
        share=float(share),
        began=_number(record.get("began", 0), 0, 1 << 63),
    )


def word(value: object) -> str:
    """A text that somebody wrote, as it may be shown and kept; raises ValueError for what is none."""
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:50]} is not a text")
    return _cut(value)


def _cut(text: str) -> str:
    """One line without control characters: it is shown in other people's terminals."""
    text = text[:LONGEST_WORD]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _number(value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{str(value)[:50]} is not a number from {least} to {most}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:50]} is neither true nor false")
    return value
