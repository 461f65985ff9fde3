"""Which verb is which action: one table for the magics and the command line.

What only one of them can do (train a cell, run a command, follow a job in its own way) stands there.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable, Mapping

from ..errors import BadOption
from ..settings import Settings
from . import run_jobs, texts
from .ask import asked, running_job
from .clean import clean
from .deploy import deploy, resume_any
from .release import release
from .status import StatusReader


def _ask(options: argparse.Namespace, settings: Settings) -> AsyncIterator[str]:
    job, paths = running_job(settings, options.job)
    return asked(job, paths, options.verb, getattr(options, "to", ""))


def _doctor(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    from ..examine.findings import as_json, as_text  # and what follows: the other verbs start faster without
    from ..examine.user import examine

    found = examine(options.wait)
    return as_json(found) if options.json else as_text(found)


def _clean(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    return "\n".join(clean(settings, options.jobs, resumable=options.all))


def _status(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    if options.watch:
        raise BadOption("--watch needs a terminal: gpufit status --watch")
    return texts.status(options, settings, reader)


# These answer, after a look.
ANSWERS: Mapping[str, Callable[[argparse.Namespace, Settings, StatusReader], str]] = {
    "checkpoint show": texts.checkpoint,
    "clean": _clean,
    "doctor": _doctor,
    "history": texts.history,
    "jobs": texts.jobs,
    "queue": texts.queue,
    "status": _status,
}
# These say what comes of them, word for word. Whoever looks away leaves what was asked for.
WISHES: Mapping[str, Callable[[argparse.Namespace, Settings], AsyncIterator[str]]] = {
    "checkpoint": _ask,
    "deploy": lambda options, settings: deploy(settings, options),
    "move": _ask,
    "release": lambda options, settings: release(settings, options.job, insist=options.insist),
    "resume": lambda options, settings: resume_any(
        settings, options.job, options.gpu, options.memory, options.gpus, options.back
    ),
    "stop": lambda options, settings: run_jobs.stop(settings, options.job),
}
