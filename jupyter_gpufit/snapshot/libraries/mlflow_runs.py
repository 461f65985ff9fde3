"""Active runs of MLflow: taken up again by their ids, with those that they are nested in.

Not covered: rewinding (MLflow keeps each value that is logged, so that what a lost part of the training had logged is
in the run twice), and autologging, which patches libraries: that it is gone is said.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...errors import CannotArrive
from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import INSTANCE
from ...surroundings.tracked import active_in_mlflow
from ...system.objects import module_of

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring

_FLUENT = "mlflow.tracking.fluent"
_AUTOLOGGING = "mlflow.utils.autologging_utils"


@dataclass(frozen=True)
class Stack:
    """The active runs of the main thread, outermost first."""

    uri: str
    runs: tuple[str, ...]
    measured: tuple[str, ...]  # those with a thread that logs the machine's load
    time: float  # of the checkpoint, in seconds since 1970


@dataclass(frozen=True)
class Autologging:
    """That of these libraries was on."""

    libraries: tuple[str, ...]


def find(cls: type) -> Kind | None:
    if cls is Autologging:
        return Kind(reduce=reduce_autologging)
    names = {f"{module_of(base)}.{base.__qualname__}" for base in cls.__mro__}
    return Kind(reduce=reduce_run) if f"{_FLUENT}.ActiveRun" in names else None


def autologging() -> list[Autologging]:
    """What the cell has turned on; as long as it does not say so once more, it is off in another process."""
    integrations = getattr(sys.modules.get(_AUTOLOGGING), "AUTOLOGGING_INTEGRATIONS", {})
    on = tuple(name for name, options in integrations.items() if options and not options.get("disable"))
    return [Autologging(on)] if on else []


def reduce_autologging(found: Autologging, pickler: SnapshotPickler) -> Reduced:
    return tell_autologging, (pickler.restoring, found.libraries)


def tell_autologging(restoring: Restoring, libraries: tuple[str, ...]) -> None:
    restoring.remarks.append(
        f"MLflow's autologging ({', '.join(libraries)}) does not go on: what it would have logged from here on is not"
        " logged. Calls such as mlflow.log_metric() are."
    )


def close() -> None:
    """Wait for what is logged asynchronously. The runs stay active: they go on in another process."""
    if _FLUENT in sys.modules:
        sys.modules[_FLUENT].flush_async_logging()


def reduce_run(run: Any, pickler: SnapshotPickler) -> Reduced:
    ids = tuple(one.info.run_id for one in active_in_mlflow())
    if run.info.run_id not in ids:
        return INSTANCE.reduce(run, pickler)  # it has ended, and is no more than what it says
    measured = tuple(getattr(sys.modules[_FLUENT], "run_id_to_system_metrics_monitor", ()))
    stack = Stack(sys.modules["mlflow"].get_tracking_uri(), ids, measured, time.time())
    return take_up, (pickler.restoring, stack, run.info.run_id)


def take_up(restoring: Restoring, stack: Stack, wanted: str) -> Any:
    mlflow: Any = import_module("mlflow")
    if mlflow.get_tracking_uri() != stack.uri:
        mlflow.set_tracking_uri(stack.uri)
    held = {run.info.run_id: run for run in active_in_mlflow()}
    for name in stack.runs:
        if name not in held:
            held[name] = _started(mlflow, name, bool(held), name in stack.measured)
            _tell_twice(restoring, held[name], stack.time)
    return held[wanted]


def _started(mlflow: Any, name: str, nested: bool, measured: bool) -> Any:
    more = {"log_system_metrics": True} if measured else {}  # older versions do not know it
    try:
        return mlflow.start_run(run_id=name, nested=nested, **more)
    except Exception as error:  # the loop's next log_metric() would fail with the same
        why = f"MLflow cannot take up its run ({error}). Resume again when {mlflow.get_tracking_uri()} has it."
        raise CannotArrive(f"the run {name}", why) from error


def _tell_twice(restoring: Restoring, run: Any, saved: float) -> None:
    logged = getattr(run.data, "_metric_objs", None) or ()  # the last value of each
    if any(metric.timestamp > saved * 1000 for metric in logged):
        name = run.info.run_id
        restoring.remarks.append(
            f"The MLflow run {name} was logged to after the checkpoint: what it got since then will be in it twice."
        )
