"""Experiment trackers: what they hold for a process, without a variable that leads to it.

W&B's and MLflow's runs go on. Of the others the handles are refused by name: most in graph/refusals.py, and here the
one that a kernel can send to a worker. A tracker is never imported for this: where nobody has, there is nothing of it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...surroundings.tracked import active_in_mlflow
from ...system.objects import module_of
from . import mlflow_runs, wandb_runs

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

PATIENCE = 60.0  # seconds for what is still to be sent
_CLEARML = "clearml.backend_interface.task.task.Task"


def find(cls: type) -> Kind | None:
    if any(f"{module_of(base)}.{base.__qualname__}" == _CLEARML for base in cls.__mro__):
        return Kind(reduce=_refuse_task)
    return wandb_runs.find(cls) or mlflow_runs.find(cls)


def _refuse_task(task: Any, pickler: SnapshotPickler) -> Reduced:
    why = "a task of ClearML's, which ends with the process that began it, and no checkpoint can hold it."
    return pickler.name_it(
        task, f"{why} Without it (`del task`) the training can be saved; what goes on from there reports nothing to it."
    )


def live() -> list[Any]:
    """The runs that `wandb.log` and `mlflow.log_metric` mean. To have them opened is to have them taken up."""
    run = wandb_runs.current()
    return [*([] if run is None else [run]), *active_in_mlflow(), *mlflow_runs.autologging()]


def close() -> None:
    """Have what was logged reach its place before this process is replaced; for so long, and then without it."""
    threads = [
        threading.Thread(target=one.close, name="gpufit-trackers", daemon=True) for one in (wandb_runs, mlflow_runs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
