"""The verbs that answer with a text, for terminal and notebook alike."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from ..jobs.store import chosen_job
from ..lab.history import read_history
from ..settings import Settings
from . import run_jobs, table
from .status import StatusReader


def answer(options: argparse.Namespace, settings: Settings, reader: StatusReader | None = None) -> str:
    """What `jobs`, `status`, `queue` and `history` say."""
    match options.verb:
        case "history":
            history = read_history(settings, options.by, options.days)
            return _json(history.to_record()) if options.json else table.history(history)
        case "jobs":
            jobs, now = (reader or StatusReader()).jobs(settings), time.time()
            if options.json:
                return _json([asdict(job) for job in jobs])
            return "\n\n".join(filter(None, [table.jobs(jobs, now), run_jobs.listed(run_jobs.mine(settings))]))
        case "queue":
            status = (reader or StatusReader()).read(settings)
            return _json(status.to_record()["queue"]) if options.json else table.queue(status)
        case "status":
            status = (reader or StatusReader()).read(settings)
            return status.to_json() if options.json else table.status(status)
    raise AssertionError(options.verb)


def show_checkpoint(settings: Settings, wanted: str, *, in_json: bool) -> str:
    """What a job's newest checkpoint holds; nothing of it is unpickled."""
    from .checkpoints import as_json, as_text  # and what follows: the other verbs start faster without

    _, paths = chosen_job(settings, wanted)
    return _json(as_json(paths.checkpoints)) if in_json else as_text(paths.checkpoints)


def _json(record: object) -> str:
    return json.dumps(record, indent=1)
