"""Runs of Weights & Biases that an earlier cell began: the worker joins the notebook's own, and `wandb.log` goes there.

W&B lets another process join a run by its id, through the process that writes and sends for the notebook. Where nothing
may be sent (an estimate, a silent rank) the run is one that does nothing. Loaded only where wandb is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

from ...system.objects import module_of
from ..kind import Kind, Pickler, Reduced
from .instances import INSTANCE, make_instance

RUN = "wandb.sdk.wandb_run.Run"
SERVICE = "WANDB_SERVICE"  # where the process listens that writes and sends: 3-<pid of its starter>-unix-<path>
_MODE = "WANDB_MODE"


def find(cls: type) -> Kind | None:
    names = {f"{module_of(base)}.{base.__qualname__}" for base in cls.__mro__}
    return Kind(reduce=reduce_run) if RUN in names else None


def reduce_run(run: Any, pickler: Pickler) -> Reduced:
    if pickler.back or not _is_live(run):
        return INSTANCE.reduce(run, pickler)
    return join, (
        run.id,
        run._init_pid,
        os.environ.get(SERVICE, ""),
        {name: value for name, value in run.config.items() if name != "_wandb"},
    )


def _is_live(run: Any) -> bool:
    begun = getattr(run, "_init_pid", None) == os.getpid() and not getattr(run, "_is_finished", False)
    return begun and bool(getattr(run, "_attach_id", None))  # one that is disabled has none


def join(name: str, owner: int, service: str, config: dict[str, Any]) -> Any:
    wandb: Any = import_module("wandb")
    if wandb.run is not None and wandb.run.id == name:
        return wandb.run
    if os.environ.get(_MODE) == "disabled":
        return wandb.init(mode="disabled", id=name, config=config)
    os.environ[SERVICE] = service
    run = make_instance(wandb.sdk.wandb_run.Run)
    run.__setstate__({"_attach_id": name, "_init_pid": owner, "_is_finished": False})
    with suppress(wandb.Error):  # it has ended: whoever uses it is told so by W&B
        assert run.settings  # to look at anything is to join
        vars(run.config)["_items"].update(config)  # which does not come with it
    return run
