"""The verbs that answer with a text, for terminal and notebook alike."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from ..jobs.store import chosen_job
from ..lab.history import read_history
from ..settings import Settings
from . import plans, run_jobs, table
from .status import StatusReader


def history(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    if options.plans:
        return _json(plans.as_json(settings)) if options.json else plans.as_text(settings, time.time(), _width(options))
    found = read_history(settings, options.by, options.days)
    return _json(found.to_record()) if options.json else table.history(found)


def jobs(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    found, now = reader.jobs(settings), time.time()
    if options.json:
        return _json([asdict(job) for job in found])
    width = _width(options)
    return "\n\n".join(filter(None, [table.jobs(found, now, width), run_jobs.listed(run_jobs.mine(settings), width)]))


def queue(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    found = reader.read(settings)
    return _json(found.to_record()["queue"]) if options.json else table.queue(found, _width(options))


def status(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    found = reader.read(settings)
    return found.to_json() if options.json else table.status(found, _width(options))


def checkpoint(options: argparse.Namespace, settings: Settings, reader: StatusReader) -> str:
    """What a job's newest checkpoint holds; nothing of it is unpickled."""
    from .checkpoints import as_json, as_text  # and what follows: the other verbs start faster without

    _, paths = chosen_job(settings, options.job)
    return _json(as_json(paths.checkpoints)) if options.json else as_text(paths.checkpoints)


def _width(options: argparse.Namespace) -> int:
    """Of the terminal that shows it; 0: it goes to a file, or a notebook, and has as much room as it takes."""
    return int(getattr(options, "width", 0))


def _json(record: object) -> str:
    return json.dumps(record, indent=1)
