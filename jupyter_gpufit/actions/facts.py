"""What there is to know of one run beside its state and its numbers: its text, how it was started, its checkpoints."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ..checkpoint.files import Checkpoint, listed
from ..errors import CheckpointBroken, GpufitError, NotYours
from ..jobs.handover import noted_start
from ..jobs.job import Job
from ..jobs.paths import JobPaths


@dataclass(frozen=True, kw_only=True)
class KeptCheckpoint:
    """One of a run's checkpoints."""

    name: str  # of its directory
    step: int
    time: float  # seconds since 1970
    bytes: int
    where: str  # "line 12 of the cell, in train()"
    device: str
    automatic: bool
    exact: bool  # goes on to the bit; else by a library's own resume
    resumed: bool  # from this one a resume goes on: it is the newest that is whole


@dataclass(frozen=True, kw_only=True)
class Version:
    """What a run was made with."""

    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Of one run."""

    source: str  # the cell's text below the magic line
    magic_line: str
    cwd: str
    claimed: int | None  # bytes that it asked for; None: a whole device, or nobody knows
    foreseen: int | None  # bytes that it was estimated to need
    versions: tuple[Version, ...]
    checkpoints: tuple[KeptCheckpoint, ...]  # newest first
    broken: tuple[str, ...]  # why a checkpoint cannot be used


def read_facts(job: Job, paths: JobPaths) -> RunFacts:
    """Read from its files; what cannot be read is left out."""
    claimed, foreseen = job.options.memory, None
    with suppress(GpufitError, OSError, ValueError, KeyError, TypeError, AssertionError):
        start = noted_start(paths)
        claimed, foreseen = start.needed or claimed, start.foreseen
    good, bad = _checkpoints(paths)
    return RunFacts(
        source=job.source,
        magic_line=job.magic_line,
        cwd=job.cwd,
        claimed=claimed,
        foreseen=foreseen,
        versions=_versions(job, good[0] if good else None),
        checkpoints=tuple(_kept(one, one is good[0]) for one in good),
        broken=bad,
    )


def _checkpoints(paths: JobPaths) -> tuple[list[Checkpoint], tuple[str, ...]]:
    try:
        good, bad = listed(paths.checkpoints)
    except (CheckpointBroken, NotYours, OSError) as error:
        return [], (str(error),)
    return good, tuple(map(str, bad))


def _kept(checkpoint: Checkpoint, newest: bool) -> KeptCheckpoint:
    about = checkpoint.about
    return KeptCheckpoint(
        name=checkpoint.manifest.name,
        step=about.step,
        time=about.time,
        bytes=checkpoint.nbytes,
        where=about.where,
        device=about.device,
        automatic=about.automatic,
        exact=about.exact,
        resumed=newest,
    )


def _versions(job: Job, newest: Checkpoint | None) -> tuple[Version, ...]:
    """Its notebook's, and what its newest checkpoint was written with."""
    found = {"jupyter_gpufit": job.version, **job.versions}
    if newest is not None:
        found |= {"Python": newest.about.python, "torch": newest.about.torch, **newest.about.versions}
    return tuple(Version(name=name, version=version) for name, version in found.items() if version)
