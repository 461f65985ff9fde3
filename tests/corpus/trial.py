"""One program, tried: plain twice, under the magic, estimated, and killed in its loop and resumed.

What it is compared with is a kernel without us. A program that asks what `cuda` is may rightly do something else with
us (float16, a fused optimizer), or not run at all without a GPU: then, with a kernel where `cuda` is the stand-in and
no magic. The trial says which.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jupyter_gpufit.estimate.reckoning.report import NO_GPU
from jupyter_gpufit.jobs.record import Record, read_record
from jupyter_gpufit.jobs.state import BEFORE
from jupyter_gpufit.jobs.state import ENDED as ENDED_STATES
from jupyter_gpufit.jobs.store import all_jobs
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit
from tests.corpus.digest import CALL, differences, read_digest
from tests.corpus.program import Program
from tests.kernels import Kernel, Ran, environment, running_kernel

NAME = "tried"  # of the job
PATIENCE = 240.0  # seconds for one cell
PLAIN, STAND_IN = "plain", "the stand-in, without the magic"  # references


@dataclass
class Trial:
    """What became of a program; a text that is empty says that all was well."""

    name: str
    plain: str = ""  # why it does not run without us
    reference: str = PLAIN  # what it was compared with
    same: str = ""  # the first difference between the reference and under the magic
    estimate: str = ""  # why there is no number
    resumed: str = ""  # the first difference after a kill and a resume, or why there was none
    need: int | None = None  # bytes
    confidence: str = ""
    inexact: list[str] = field(default_factory=list)  # names that differ between two plain runs
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the user was told

    @property
    def ended_first(self) -> bool:
        """It was over before it was killed."""
        return self.resumed == ENDED


ENDED = "ended before it could be saved and killed"
SEEDS = """import random, numpy, torch
random.seed(0); numpy.random.seed(0); torch.manual_seed(0)
del random, numpy, torch
"""
REFUSED = "ended before there was a job"


@dataclass
class _Seen:
    """One run of a whole program."""

    digest: dict[str, object]
    ran: Ran  # the training cell
    seconds: float


class _Broken(Exception):
    """A cell that ought to have run did not."""


def try_program(program: Program, home: Path, *, estimate: bool = True, resume: bool = True) -> Trial:
    """Try all of it; `home` is an empty directory."""
    trial = Trial(program.name)
    try:
        expected = _expected(program, home, trial)
    except _Broken as error:
        trial.plain = str(error)
        return trial
    expected = _tried(program, home, expected, trial)
    if estimate:
        _estimate(program, home / "estimate", trial)
    if resume:
        trial.resumed = _resume(program, home / "resume", expected, trial)
    return trial


def try_quickly(program: Program, home: Path, *, whole: bool = False) -> Trial:
    """Try all of it in two warm kernels: once without us; and estimated, killed in its loop and resumed in one.

    What then ends as it did without us was the same under the magic, too. With `whole` it also runs there without a
    kill, and is to print the same; and whatever generators it leaves unseeded begin alike, so that one run without us
    tells what it does. Where anything went apart, `try_program` tells what.
    """
    trial = Trial(program.name)
    if whole:
        program = replace(program, before=(SEEDS, *program.before))
    try:
        first = _once(program, home, trial)
    except _Broken as error:
        trial.plain = str(error)
        return trial
    trial.seconds["plain"] = first.seconds
    expected = _Expected(first, set(), False)
    with _kernel(home / "ours", ours=True, cold=False) as kernel:
        try:
            _setup(kernel, program)
            _ask_estimate(kernel, program, trial)
            if whole:
                seen = _trained(kernel, program, "%%gpufit train --name whole\n")
                if _difference(replace(expected, says=True), seen):
                    return try_program(program, home)
                _setup(kernel, program)
            went_on = _go_on(kernel, program, home / "ours", trial)
        except (_Broken, AssertionError):
            return try_program(program, home)
    if whole and went_on == ENDED:
        trial.resumed = went_on
        return trial
    if isinstance(went_on, str) or trial.estimate:
        return try_program(program, home)
    seen = went_on
    if found := _difference(expected, seen):
        first, second = (_run(program, home / f"anew-{number}", ours=True) for number in (1, 2))
        unsure = {place.split(":")[0].split("[")[0] for place in differences(first.digest, second.digest)}
        trial.inexact = sorted(unsure)
        if _difference(replace(expected, unsure=unsure), seen):
            trial.notes.append(f"plain differs where there is a GPU: {found}")
            trial.reference = STAND_IN
            expected = replace(expected, seen=first)
        expected = replace(expected, unsure=unsure)
    return try_program(program, home) if _difference(expected, seen) else trial


def _once(program: Program, home: Path, trial: Trial) -> _Seen:
    """Without us; where it cannot run so, with the stand-in."""
    try:
        return _run(program, home / "plain", cold=False)
    except _Broken as error:
        trial.notes.append(f"without us: {error}")
        trial.reference = STAND_IN
    return _run(program, home / "stand-in-once", ours=True, cold=False)


@dataclass
class _Expected:
    """What a program does, and what of it is the same each time."""

    seen: _Seen
    unsure: set[str]  # names
    says: bool  # what it prints is the same, too


def _expected(program: Program, home: Path, trial: Trial) -> _Expected:
    """Twice without us; where it cannot run so, with the stand-in."""
    try:
        first, second = (_run(program, home / f"plain-{number}") for number in (1, 2))
    except _Broken as error:
        first, second = (_run(program, home / f"stand-in-{number}", ours=True) for number in (1, 2))
        trial.reference = STAND_IN
        trial.notes.append(f"without us: {error}")
    trial.seconds["plain"] = first.seconds
    unsure = {place.split(":")[0].split("[")[0] for place in differences(first.digest, second.digest)}
    trial.inexact = sorted(unsure)
    return _Expected(first, unsure, first.ran.stdout == second.ran.stdout)


def _tried(program: Program, home: Path, expected: _Expected, trial: Trial) -> _Expected:
    """Under the magic; with what it is to be compared from now on."""
    try:
        seen = _run(program, home / "magic", f"%%gpufit train --name {NAME}\n", ours=True)
    except _Broken as error:
        trial.same = str(error)
        return expected
    trial.seconds["magic"] = seen.seconds
    trial.notes += [line for line in seen.ran.shown.splitlines() if line.strip()]
    trial.same = _difference(expected, seen)
    if not trial.same or trial.reference == STAND_IN:
        return expected
    try:
        fair = replace(expected, seen=_run(program, home / "stand-in", ours=True))
    except _Broken:
        return expected
    if _difference(fair, seen):
        return expected
    trial.notes.append(f"plain differs where there is a GPU: {trial.same}")
    trial.same, trial.reference = "", STAND_IN
    return fair


def _difference(expected: _Expected, seen: _Seen) -> str:
    found = [
        place
        for place in differences(expected.seen.digest, seen.digest)
        if place.split(":")[0].split("[")[0] not in expected.unsure
    ]
    if found:
        return found[0]
    one, other = (_without_devices(run.ran.stdout) for run in (expected.seen, seen))
    if expected.says and one != other:
        lines = zip(one.splitlines(), other.splitlines(), strict=False)
        apart = next(((left, right) for left, right in lines if left != right), ("", "more or less lines"))
        return f"stdout: {apart[0][:60]!r} and {apart[1][:60]!r}"
    return ""


def _without_devices(text: str) -> str:
    return re.sub(r"cuda(:0)?|, device='[^']*'", "cpu", text).replace("cpu:0", "cpu")


def _estimate(program: Program, home: Path, trial: Trial) -> None:
    with _kernel(home, ours=True) as kernel:
        try:
            _setup(kernel, program)
        except _Broken as error:
            trial.estimate = str(error)
            return
        _ask_estimate(kernel, program, trial)


def _ask_estimate(kernel: Kernel, program: Program, trial: Trial) -> None:
    began = time.monotonic()
    ran = kernel.run(f"%%gpufit estimate --json\n{program.train}", PATIENCE)
    trial.seconds["estimate"] = time.monotonic() - began
    try:
        record = json.loads(ran.shown)
    except ValueError:
        trial.estimate = (ran.evalue or ran.shown or "nothing was said").strip()[:300]
        return
    trial.need, trial.confidence = record["need"], record["confidence"]
    if trial.need is None and record["reasons"][:1] != [NO_GPU]:
        trial.estimate = "; ".join(map(str, record["reasons"]))[:300]


def _resume(program: Program, home: Path, expected: _Expected, trial: Trial) -> str:
    """Kill it once it is saved, resume it, and compare with what it was compared with before."""
    with _kernel(home, ours=True) as kernel:
        try:
            _setup(kernel, program)
            seen = _go_on(kernel, program, home, trial)
        except (_Broken, AssertionError) as error:
            return f"{type(error).__name__}: {error}"[:300]
    # What is printed again after a kill is compared elsewhere.
    return seen if isinstance(seen, str) else _difference(replace(expected, says=False), seen)


def _go_on(kernel: Kernel, program: Program, home: Path, trial: Trial) -> _Seen | str:
    """What it came to after a kill; a text where it did not."""
    sent = kernel.send(f"%%gpufit train --name {NAME}\n{program.train}")
    saved = _saved(kernel, sent, home, trial)
    ended = kernel.finish(sent, PATIENCE)
    if saved in (ENDED, REFUSED) and not ended.ok:
        return f"{ended.ename}: {ended.evalue}"[:300]
    if saved:
        return saved
    began = time.monotonic()
    ran = kernel.run(f"%gpufit resume {NAME}", PATIENCE)
    trial.seconds["resumed"] = time.monotonic() - began
    if not ran.ok:
        return f"the resume failed: {ran.ename}: {ran.evalue[:300]}"
    for cell in program.after:
        _check(kernel, cell)
    return _Seen(read_digest(kernel.check(CALL).stdout), Ran(), 0.0)


def _saved(kernel: Kernel, sent: str, home: Path, trial: Trial) -> str:
    """Have the job saved and killed; why not, if not."""
    until = time.monotonic() + PATIENCE
    while not _began(home):
        if kernel.replied(sent, 0.05) and not _began(home):  # the job's state is in a file of another process
            return REFUSED
        if time.monotonic() > until:
            return "it never began"
    began = time.monotonic()
    done = gpufit(_env(home), "checkpoint", NAME)
    trial.seconds["saved"] = time.monotonic() - began
    record = _record(home)
    if record is None or record.state in ENDED_STATES:
        return ENDED
    if done.returncode:
        gpufit(_env(home), "stop", NAME)
        return f"not saved: {(done.stderr or done.stdout).strip()[-300:]}"
    assert record.worker is not None
    os.kill(record.worker.pid, signal.SIGKILL)
    return ""


def _began(home: Path) -> bool:
    record = _record(home)
    return record is not None and record.state not in {*BEFORE, "lost"}  # lost: a job that nobody has begun


def _record(home: Path) -> Record | None:
    """Of the job that is to be killed, once it is there."""
    with suppress(OSError):
        for job, paths in all_jobs(Settings(data=str(home / ".local/share/gpufit"))):
            if job.name == NAME:
                return read_record(paths)
    return None


def _run(program: Program, home: Path, magic: str = "", *, ours: bool = False, cold: bool = True) -> _Seen:
    with _kernel(home, ours=ours, cold=cold) as kernel:
        _setup(kernel, program)
        return _trained(kernel, program, magic)


def _trained(kernel: Kernel, program: Program, magic: str) -> _Seen:
    """What a program that is set up comes to."""
    began = time.monotonic()
    ran = _check(kernel, magic + program.train)
    taken = time.monotonic() - began
    for cell in program.after:
        _check(kernel, cell)
    return _Seen(read_digest(kernel.check(CALL).stdout), ran, taken)


def _setup(kernel: Kernel, program: Program) -> None:
    for cell in program.before:
        _check(kernel, cell)


def _check(kernel: Kernel, cell: str) -> Ran:
    ran = kernel.run(cell, PATIENCE)
    if not ran.ok:
        raise _Broken(f"{ran.ename}: {ran.evalue}"[:300])
    return ran


def _env(home: Path) -> dict[str, str]:
    return environment(home, GPUFIT_DEVICES="cpu:2x4GiB", PYTHONHASHSEED="0", OMP_NUM_THREADS="1", MPLBACKEND="Agg")


@contextmanager
def _kernel(home: Path, *, ours: bool, cold: bool = True) -> Any:
    work = home / "work"
    work.mkdir(parents=True)
    with running_kernel(_env(home), work, load=ours, cold=cold) as kernel:
        yield kernel
