"""What is said over a worker's control socket: lines of JSON; pure. A request with another PROTOCOL is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

PROTOCOL = 1
WorkerVerb = Literal[
    "state", "interrupt", "end", "follow", "collect", "collected", "checkpoint", "release", "move", "resume", "dismiss"
]


@dataclass(frozen=True)
class WorkerRequest:
    """One question to a worker."""

    verb: WorkerVerb
    protocol: int = PROTOCOL
    to: str = ""  # of a move: the device's label, index or UUID, empty: the best other one; of a resume: its GoOn

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> WorkerRequest:
        record = json.loads(line)
        return cls(verb=record["verb"], protocol=record["protocol"], to=str(record.get("to", "")))


@dataclass(frozen=True)
class Answer:
    """A worker's answer."""

    ok: bool
    why: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Answer:
        record = json.loads(line)
        return cls(**{item.name: record[item.name] for item in fields(cls) if item.name in record})
