"""What is said over a worker's control socket: lines of JSON; pure.

A request with another PROTOCOL is refused, with the worker's own and its version; but for what means the same in all of
them, so that a job can always be stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from ..system.foreign import known, parsed_record

PROTOCOL = 1
Wish = Literal["checkpoint", "release", "move"]
Waking = Literal["resume", "dismiss"]  # of a suspended worker
Question = Literal[Wish, Waking, "widget"]  # to which the worker's answer is all
WorkerVerb = Literal[
    "state",
    "interrupt",
    "end",
    "follow",
    "outcome",  # answered when there is one
    "collect",
    "collected",
    Question,
]
IN_EVERY_PROTOCOL: tuple[WorkerVerb, ...] = ("state", "interrupt", "end")
WORKER_VERBS: tuple[WorkerVerb, ...] = get_args(WorkerVerb)


@dataclass(frozen=True)
class WorkerRequest:
    """One question to a worker."""

    verb: WorkerVerb
    protocol: int = PROTOCOL
    # Of a move: the device's label, index or UUID, empty: the best other one; of a resume: its GoOn; of a widget: what
    # a browser sends it.
    to: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> WorkerRequest:
        record = parsed_record(line)
        return cls(**known(cls, {**record, "verb": str(record["verb"]), "protocol": record["protocol"]}))


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
        found = known(cls, parsed_record(line))
        if not isinstance(found.get("data", {}), dict):
            raise ValueError("its data are not an object")
        return cls(**found)
