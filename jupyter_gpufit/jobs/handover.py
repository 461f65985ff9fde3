"""How a job is given to a process: to one that is running already, to the next image of this one, and to a later one.

A cold start and a worker that a spare has forked go the same way, by one message with descriptors over a socket pair;
the latter has merely imported torch by the time the message comes. A worker that moves leaves the same record to the
image that replaces it, and what a resume needs of the first start stays in the job's `start.json`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from ..system.files import read_small, write_durably
from ..system.foreign import known, parsed_record
from ..system.trust import check_trusted
from .job import FORMAT
from .paths import JobPaths

LENGTH = 8  # bytes, big-endian, before the message
MOST_DESCRIPTORS = 64
FORKS = "--forks"  # of the worker's command line: it is a spare, and forks a worker for each that is asked for
KEPT = "--kept"  # of the worker's command line: the record is in this memfd, and its descriptors came through the exec


@dataclass(frozen=True)
class HeldClaim:
    """A claim of this process, by its file in the lab and the descriptor that locks it."""

    id: str
    fd: int


@dataclass(frozen=True, kw_only=True)
class Handover:
    """What the worker takes over beside the job's files."""

    job_root: str
    cwd: str
    path: list[str]  # sys.path of the kernel, so that the notebook's modules are found
    env: Mapping[str, str]  # os.environ of the kernel, which may have changed since a spare was started
    cell_number: int  # the kernel's execution count, for tracebacks
    argv: list[str] | None = None  # sys.argv of the kernel: modules read it as they are imported
    python: str = sys.executable
    package: str = ""  # the folder from which that Python has jupyter_gpufit: of its own environment, and no other's
    gpu: str = ""  # of a resume: another device than the job was started for
    gpus: tuple[int, int] | None = None  # of a resume: another number of devices, at least and at most
    course: dict[str, Any] | None = None  # of one on a range of devices: how long its steps take, see worker/elastic.py
    lost: list[int] = field(default_factory=list)  # the steps of checkpoints from which it went on without a rank
    needed: int | None = None  # bytes to claim, as estimated or said; None: the whole device
    foreseen: int | None = None  # bytes that its cell was estimated to need
    fit: dict[str, Any] | None = None  # the plan under which it runs, see estimate/asking/fit.py
    why: str = ""  # of a resume: where that comes from
    outgrew: int = 0  # bytes that turned out too few
    asked: int | None = None  # of a resume: what its user said it needs, in bytes
    resumes: bool = False  # from the job's newest checkpoint; else the cell begins
    repeats: bool = False  # of a resume: the job had gone on after its checkpoint, so that output may come again
    interrupted: bool = False  # while it moved
    alive_until: float = 0.0  # of a resume, seconds since 1970: when its training was last seen; 0: it left by itself
    lock: int = -1  # descriptor of the job's lock, held; set by `receive`
    memory: list[int] = field(default_factory=list)  # descriptors of the variables' tensor bytes; set by `receive`
    claim: HeldClaim | None = None  # after a move: where the job goes on
    left: HeldClaim | None = None  # after a move: to be given back, now that nothing of us is there any more


def send(channel: socket.socket, handover: Handover) -> None:
    """Give the job away; the descriptors remain open here too and are the caller's to close."""
    body = json.dumps(asdict(handover)).encode()
    socket.send_fds(channel, [len(body).to_bytes(LENGTH, "big")], [handover.lock, *handover.memory])
    channel.sendall(body)


def receive(channel: socket.socket) -> Handover | None:
    """Wait for a job; None when the kernel went away without giving one."""
    head, descriptors, _, _ = socket.recv_fds(channel, LENGTH, MOST_DESCRIPTORS)
    if len(head) < LENGTH:
        return None
    for fd in descriptors:
        os.set_inheritable(fd, False)
    body = _exactly(channel, int.from_bytes(head, "big"))
    if body is None:
        return None
    return replace(_read(body), lock=descriptors[0], memory=descriptors[1:])


def become(handover: Handover, env: Mapping[str, str]) -> NoReturn:
    """Replace this process's image by a worker that takes the job over; whatever else was open is closed by that."""
    record = os.memfd_create("gpufit-handover", 0)
    _write_all(record, json.dumps(asdict(handover)).encode())
    kept = {record, *_descriptors(handover)}
    for fd in _open_descriptors():
        # A driver's descriptor that came through would keep its context, and with it the device's memory.
        os.set_inheritable(fd, fd in kept or fd <= 2)
    os.execve(sys.executable, [sys.executable, "-m", "jupyter_gpufit.worker", KEPT, str(record)], dict(env))


def kept(record: int) -> Handover:
    """What the image before this one left."""
    with open(record, "rb") as file:
        file.seek(0)
        handover = _read(file.read())
    for fd in _descriptors(handover):
        os.set_inheritable(fd, False)
    return handover


def note_start(paths: JobPaths, handover: Handover) -> None:
    """Keep what a resume needs. The environment may hold secrets: the file is for its owner only."""
    noted = {**asdict(replace(handover, lock=-1, memory=[])), "format": FORMAT}
    write_durably(paths.start, json.dumps(noted))  # on a full disk the old one stays, or nothing could be resumed


def noted_start(paths: JobPaths) -> Handover:
    """How the job was started first."""
    check_trusted(paths.start)
    return _read(read_small(paths.start).encode())


def _read(body: bytes) -> Handover:
    found = known(Handover, parsed_record(body))
    if found.get("gpus") is not None:
        found["gpus"] = tuple(found["gpus"])
    for name in ("claim", "left"):
        if found.get(name) is not None:
            found[name] = HeldClaim(**known(HeldClaim, found[name]))
    return Handover(**found)


def _descriptors(handover: Handover) -> Iterator[int]:
    yield from (fd for fd in (handover.lock, *handover.memory) if fd >= 0)
    yield from (held.fd for held in (handover.claim, handover.left) if held is not None)


def _open_descriptors() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the listing's own
        found.append(int(name))
    return found


def _write_all(fd: int, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = channel.recv(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
