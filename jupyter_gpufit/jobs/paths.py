"""Where a job's files lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import PathTooLong
from ..settings import Settings
from ..system.runtime import runtime_dir


@dataclass(frozen=True)
class JobPaths:
    """Builds every path of a job, each once; nobody else does."""

    root: Path

    @cached_property
    def job(self) -> Path:
        return self.root / "job.json"

    @cached_property
    def input(self) -> Path:
        return self.root / "input"

    @cached_property
    def graph(self) -> Path:
        return self.input / "graph.pkl"

    @cached_property
    def model(self) -> Path:
        """What is known of a model that is deployed; its files lie beside this."""
        return self.root / "model.json"

    @cached_property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @cached_property
    def lock(self) -> Path:
        return self.root / "lock"

    @cached_property
    def state(self) -> Path:
        return self.root / "state.json"

    @cached_property
    def epoch(self) -> Path:
        return self.root / "epoch"

    @cached_property
    def publish_lock(self) -> Path:
        """Held for an instant by whoever publishes a checkpoint, or numbers a worker."""
        return self.root / "publish.lock"

    @cached_property
    def start(self) -> Path:
        """How its first worker was started: directory, environment, import path, hash seed."""
        return self.root / "start.json"

    @cached_property
    def stopping(self) -> Path:
        """Locked, shared, by whoever is about to stop the job: what is heard nowhere else, a moved worker sees."""
        return self.root / "stopping"

    @cached_property
    def log(self) -> Path:
        """What the worker's own process wrote before and after the cell: for a bug report."""
        return self.root / "worker.log"

    @cached_property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @cached_property
    def picked(self) -> Path:
        """Which of its numbers its user wants drawn."""
        return self.root / "picked.json"

    @cached_property
    def result(self) -> Path:
        return self.root / "result"

    @cached_property
    def owed(self) -> Path:
        """There while a job is done and its variables are with its worker alone: killed then, it is lost."""
        return self.root / "owed"


LONGEST_PATH = 107  # bytes; sockaddr_un holds 108 with the closing zero


def socket_path(settings: Settings, job_id: str) -> Path:
    """The job's control socket."""
    return _socket(settings, f"{job_id}.sock")


def calls_path(settings: Settings, job_id: str) -> Path:
    """Where a deployed model is called."""
    return _socket(settings, f"{job_id}.calls.sock")


def _socket(settings: Settings, name: str) -> Path:
    path = runtime_dir(settings) / name
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise PathTooLong(str(path), LONGEST_PATH)
    return path
