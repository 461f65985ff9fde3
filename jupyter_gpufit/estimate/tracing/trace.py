"""Runs a cell on a device that is not there, in a forked child, and tells what memory it would have taken.

The child has the user's real objects, copied on write, so nothing here changes. It may be killed, or crash: that is an
answer too. To be called before CUDA is initialised in this process. What is not seen: loops.py and contained.py say it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...devices.card import Card
from ...devices.speeds import TYPICAL, DeviceSpeed
from ...fit.plan import Plan
from ...fit.sharing import Sharing
from ...system.collecting import for_good
from ...system.contained import who_opens_and_changes
from ...system.processes import die_with_parent
from ...system.signals import name_of
from ..reckoning.record import Change, RanModule, Status, Trace, TracedStorage
from .left_out import Place
from .so_far import seen_so_far

_WHERE = signal.SIGRTMIN + 7  # a signal that no cell handles
_LINE = re.compile(r'File "<cell>", line (\d+)')
_MOST_WORDS, _MOST_LOG = 200, 5000  # characters of a log, in a sentence and behind it
_MOST_LEFT_OUT = 5  # statements, each found by a trace of its own
_LAST_WORDS = 2.0  # seconds in which a late child says where it is


def trace_cell(
    source: str,
    open_namespace: Callable[[], dict[str, object]],
    card: Card,
    *,
    steps: int = 2,
    limit: float = 120.0,
    stop: int | None = None,
    plan: Plan = Plan(),  # noqa: B008 - frozen
    speed: DeviceSpeed = TYPICAL,
    sharing: Sharing = Sharing(),  # noqa: B008 - frozen
) -> Trace:
    """Trace a cell on `card` until every optimizer took `steps` steps, for at most `limit` seconds.

    `source` is plain Python, after IPython's transformer. `open_namespace` is called in the child, and gives the
    variables; what it maps from elsewhere it must map privately. `stop` is a descriptor: once it can be read, the
    trace is not wanted any more. `plan`: under which it runs. `speed`: what its seconds are reckoned by.
    """
    began = time.monotonic()
    try:
        child_type = _child_type()
    except (ImportError, AttributeError, TypeError) as error:
        return Trace("died", f"This version of torch cannot be traced: {error}")
    given, around = (source, open_namespace, card, steps), (plan, speed, sharing)
    left_out: list[Place] = []

    def run(out: int, scratch: Path) -> None:
        child_type(*given, out, scratch, *around, left_out, holders).run()

    while True:
        holders = who_opens_and_changes()
        trace = _traced(run, source, began, limit, stop)
        refused = None if trace.trained else trace.refused
        if refused is None or refused in left_out or len(left_out) == _MOST_LEFT_OUT:
            return trace
        left_out.append(refused)


def _traced(run: Callable[[int, Path], None], source: str, began: float, limit: float, stop: int | None) -> Trace:
    scratch = Path(tempfile.mkdtemp(prefix="gpufit-trace-"))
    try:
        running = _fork(lambda out: run(out, scratch))
        body, late = _wait(running, began + limit, stop)
        status = _end(running)
        log, seconds = running.log_text(), time.monotonic() - began
        if not late and body.endswith(b"\n"):
            return _told(json.loads(body), seconds)
        how: tuple[Status, str] = (
            ("timeout", f"It took more than {limit:g} s.") if late else ("died", _how(status, log))
        )
        # After the steps that were watched nothing can cost the number any more: what was seen then is kept.
        return replace(_told(seen_so_far(scratch), seconds), status=how[0], error=how[1], where=_where(log, source))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def import_what_traces() -> None:
    """What a trace needs and takes long to import, for a process that has time now."""
    _child_type()


def _child_type() -> type:
    is_here = f"{__package__}.child" in sys.modules
    with contextlib.nullcontext() if is_here else for_good():  # which costs a look at each object
        child: type = importlib.import_module(".child", __package__).Child
        _import_what_every_child_needs()
    return child


def _import_what_every_child_needs() -> None:
    """Torch imports these at the first fake tensor; here it happens once, and not in each child (0.4 s)."""
    for name in ("torch.fx.experimental.symbolic_shapes", "torch.distributed.tensor", "torch._functorch.config"):
        with contextlib.suppress(ImportError):  # builds without torch.distributed do without it
            importlib.import_module(name)


@dataclass(frozen=True)
class Running:
    """A child, where its result comes from, and what it and the C code in it say when they die."""

    pid: int
    result: int  # file descriptor
    log: int  # file descriptor

    def log_text(self) -> str:
        """To be read once: it is closed with that."""
        with open(self.log, "rb") as file:
            file.seek(max(0, os.fstat(self.log).st_size - 20_000))
            return file.read().decode(errors="replace").strip()


def _fork(run: Callable[[int], None]) -> Running:
    result, out = os.pipe()
    log = os.memfd_create("gpufit-trace", os.MFD_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(out)
        with contextlib.suppress(OSError):  # by both, since either may come first: it must be there when we end it
            os.setpgid(pid, pid)
        return Running(pid, result, log)
    try:
        os.close(result)
        _leave_parent(log)
        run(out)
    except BaseException as error:
        with open(log, "a", closefd=False) as file:
            file.write("".join(traceback.format_exception_only(error)))
    finally:
        os._exit(1)


def _leave_parent(log: int) -> None:
    """A group of its own, so that all that the cell starts can be ended with it; no output of the parent's."""
    import faulthandler

    os.setpgid(0, 0)
    die_with_parent()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.dup2(log, 2)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    faulthandler.enable(2)
    faulthandler.register(_WHERE, file=2, all_threads=False)


def _wait(running: Running, end: float, stop: int | None = None) -> tuple[bytes, bool]:
    """Read the result, a line; whether the time ran out before it came."""
    body = bytearray()
    watched = [running.result] if stop is None else [running.result, stop]
    while not body.endswith(b"\n"):
        ready = select.select(watched, [], [], max(0.0, end - time.monotonic()))[0]
        if stop in ready:
            return b"", True
        if not ready:
            _ask_where(running)
            return b"", True
        part = os.read(running.result, 1 << 20)
        if not part:
            break
        body += part
    return bytes(body), False


def _ask_where(running: Running) -> None:
    os.kill(running.pid, _WHERE)
    end = time.monotonic() + _LAST_WORDS
    while time.monotonic() < end and not _LINE.search(os.pread(running.log, 1 << 16, 0).decode(errors="replace")):
        time.sleep(0.01)


def _end(running: Running) -> int:
    os.close(running.result)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)  # not yet reaped, so the number is still its own
    return os.waitpid(running.pid, 0)[1]


def _told(found: dict[str, Any], seconds: float) -> Trace:
    blocks = tuple(TracedStorage(*row) for row in found.pop("blocks", ()))
    changes = tuple(Change(*row) for row in found.pop("changes", ()))
    modules = tuple(RanModule(*row) for row in found.pop("modules", ()))
    read = found.pop("read", None)
    read = None if read is None else tuple(map(tuple, read))
    if found.get("refused") is not None:
        found["refused"] = tuple(found["refused"])
    told = {"status": "died"} | found
    return Trace(**told, blocks=blocks, changes=changes, modules=modules, seconds=seconds, read=read)


def _how(status: int, log: str) -> str:
    """How a child ended that could tell nothing: the reason in the first line, all that is known behind it."""
    words = log.split("\nExtension modules:")[0].strip()
    if os.WIFSIGNALED(status):
        how = name_of(os.WTERMSIG(status))
    else:
        how = f"status {os.waitstatus_to_exitcode(status)}"
    reason = f"its process ended unexpectedly ({how})"
    # Of Python's own report of a crash only the cell's line matters, which is found in it elsewhere.
    said = " ".join(line for part in words.split("Fatal Python error")[0].splitlines() if (line := part.strip()))
    return f"{reason}{f': {said[-_MOST_WORDS:]}' if said else ''}\n{words[-_MOST_LOG:]}".strip()


def _where(log: str, source: str) -> str:
    """The innermost line of the cell in what faulthandler wrote."""
    found = _LINE.search(log)
    if found is None:
        return ""
    number = int(found[1])
    lines = source.splitlines()
    return f"line {number} of the cell" + (f": {lines[number - 1].strip()}" if number <= len(lines) else "")
