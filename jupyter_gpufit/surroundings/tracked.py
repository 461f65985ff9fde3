"""Runs of experiment trackers that no variable need lead to: those which `wandb.log` and `mlflow.log_metric` mean.

An earlier cell began them, and they stay the notebook's: the worker joins them, and ends none.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_FLUENT = "mlflow.tracking.fluent"


@dataclass(frozen=True)
class TrackedByWandb:
    run: Any
    config: Any  # what a cell has put in place of `wandb.config`


@dataclass(frozen=True)
class TrackedByMlflow:
    uri: str
    experiment: str | None
    runs: tuple[str, ...]  # of the main thread, outermost first


def of_process(mentioned: Callable[[str], bool]) -> list[Any]:
    """Those of the trackers that the cell or a variable mentions: to join a run is to import its library."""
    asked = (("wandb", _of_wandb), ("mlflow", _of_mlflow))
    found = [read() for package, read in asked if package in sys.modules and mentioned(package)]
    return [one for one in found if one is not None]


def put(found: list[Any]) -> None:
    for one in found:
        _put_wandb(one) if isinstance(one, TrackedByWandb) else _put_mlflow(one)


def _of_wandb() -> TrackedByWandb | None:
    wandb = sys.modules["wandb"]
    if (run := getattr(wandb, "run", None)) is None or getattr(run, "_is_finished", False):
        return None
    config = getattr(wandb, "config", None)
    return TrackedByWandb(run, None if type(config).__module__.partition(".")[0] == "wandb" else config)


def _put_wandb(found: TrackedByWandb) -> None:
    wandb: Any = import_module("wandb")
    if not getattr(found.run, "_attach_id", None):
        found.run._init_pid = os.getpid()  # one that does nothing is no other process's: a checkpoint has it
    if wandb.run is not found.run:
        wandb.sdk.wandb_init._set_global_run(found.run)
    if found.config is not None:
        wandb.config = found.config


def silence() -> None:
    """In a process that may send nothing, forked from one that has joined a run: the same object does nothing now."""
    wandb: Any = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if run is None or not getattr(run, "_attach_id", None):
        return
    silent = wandb.init(mode="disabled", id=run._attach_id, config=dict(vars(run)["_config"]))
    vars(run).clear()
    vars(run).update(vars(silent))
    run.__class__ = type(silent)
    wandb.sdk.wandb_init._set_global_run(run)


def active_in_mlflow() -> list[Any]:
    """The main thread's, outermost first."""
    stack = getattr(sys.modules.get(_FLUENT), "_active_run_stack", [])
    if hasattr(stack, "get_all_thread_values"):  # else a plain list, in older versions
        # Not simply this thread's: a graph of many linked objects is written by a thread with a larger stack.
        stack = stack.get_all_thread_values().get(threading.main_thread().ident, [])
    return list(stack)


def _of_mlflow() -> TrackedByMlflow | None:
    if (fluent := sys.modules.get(_FLUENT)) is None:
        return None
    runs = tuple(run.info.run_id for run in active_in_mlflow())
    return TrackedByMlflow(sys.modules["mlflow"].get_tracking_uri(), fluent._active_experiment_id, runs)


def _put_mlflow(found: TrackedByMlflow) -> None:
    mlflow: Any = import_module("mlflow")
    mlflow.set_tracking_uri(found.uri)
    sys.modules[_FLUENT]._active_experiment_id = found.experiment  # type: ignore[attr-defined]
    with suppress(mlflow.exceptions.MlflowException):  # its next log_metric() tells why
        for name in found.runs:
            mlflow.start_run(run_id=name, nested=bool(active_in_mlflow()))
    atexit.register(_leave, found.runs)  # before what MLflow itself does then


def _leave(names: tuple[str, ...]) -> None:
    """They go on in the notebook: MLflow would end them with this process."""
    stack = sys.modules[_FLUENT]._active_run_stack
    runs = stack.get() if hasattr(stack, "get") else stack
    runs[:] = [run for run in runs if run.info.run_id not in names]
