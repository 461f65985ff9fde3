"""Runs of Weights & Biases: taken up again by their id; one that was offline goes on in a directory beside its first.

What a lost part of the training had logged online is left out when it is logged again. Not covered: the same offline,
where `wandb sync` sends those steps from both directories; a row that was begun with `commit=False` and not ended at
the checkpoint; and rows of the last 15 s before a checkpoint, if the job is killed right after it: W&B's own process
writes them no sooner, and not when its starter has died.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import INSTANCE, make_instance
from ...graph.kinds.tracked_runs import RUN, SERVICE, join
from ...system.objects import module_of

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring

# What a run is also known by, and where each keeps the methods of its run.
_PARTS = {
    "wandb.sdk.wandb_config.Config": ("config", "_callback"),
    "wandb.sdk.wandb_summary.Summary": ("summary", "_get_current_summary_callback"),
}
# Settings that belong to one process, or that wandb.init() is given by their own names.
_OF_A_PROCESS = frozenset(
    ("program", "program_abspath", "program_relpath", "host", "docker", "settings_system", "mode", "reinit", "root_dir")
    + ("project", "entity", "resume", "resumed", "resume_from", "fork_from", "launch", "sweep_id")
    + ("x_executable", "x_start_time", "x_stats_pid", "x_stats_gpu_device_ids")
)
_FIRST_WORDS = ("run_", "git_")  # of more such settings
_PLAIN = (str, bool, int, float, tuple, type(None))


@dataclass(frozen=True)
class Identity:
    """What wandb.init() needs to take a run up."""

    id: str
    owner: int  # the process that has begun it; another one that uses it has joined it
    step: int  # of its next log()
    arguments: dict[str, Any]
    settings: dict[str, Any]


def find(cls: type) -> Kind | None:
    names = {f"{module_of(base)}.{base.__qualname__}" for base in cls.__mro__}
    if RUN in names:
        return Kind(reduce=reduce_run)
    part = next((part for name, part in _PARTS.items() if name in names), None)
    return Kind(reduce=lambda obj, pickler: _reduce_part(obj, pickler, *part)) if part is not None else None


def current() -> Any:
    """The run to which `wandb.log` goes, if there is one."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    return run if run is not None and _is_live(run) else None


def close() -> None:
    """Have written or sent what was logged, since the process that does it ends with this one; then no run is live."""
    if _starter(os.environ.get(SERVICE, "")) == os.getpid():
        sys.modules["wandb"].teardown()


def _is_live(run: Any) -> bool:
    """Whether this process has begun or joined it, and it goes on."""
    here = os.getpid() in (getattr(run, "_init_pid", None), getattr(run, "_attach_pid", None))
    return here and not getattr(run, "_is_finished", False)


def reduce_run(run: Any, pickler: SnapshotPickler) -> Reduced:
    if not _is_live(run):
        return _reduce_other(run)
    first = current()
    others = None if first is None or first is run else _identity(first)
    state = getattr(run, "_torch_history", None)  # the hooks of run.watch(model)
    return take_up, (pickler.restoring, _identity(run), others), state, None, None, fill_run


def _reduce_other(run: Any) -> Reduced:
    """One that has ended is what it shows; another process's is joined when it is used, as W&B has it."""
    if not getattr(run, "_is_finished", False):
        return make_instance, (type(run),), run.__getstate__(), None, None, type(run).__setstate__
    own = {name: value for name, value in vars(run).items() if isinstance(value, _PLAIN)}
    shown = {name: getattr(run, name, None) for name in ("_settings", "_config")}
    return make_instance, (type(run),), own | shown, None, None, fill_ended


def fill_ended(run: Any, own: dict[str, Any]) -> None:
    vars(run).update(own, _init_pid=os.getpid(), _attach_pid=os.getpid())


def _identity(run: Any) -> Identity:
    settings = run.settings
    given = {name: getattr(settings, name) for name in getattr(settings, "model_fields_set", ())}
    kept = {
        name: value
        for name, value in given.items()
        if name not in _OF_A_PROCESS and not name.startswith(_FIRST_WORDS) and isinstance(value, _PLAIN)
    }
    arguments = {
        "project": settings.project,
        "entity": settings.entity,
        "name": settings.run_name,
        "notes": settings.run_notes,
        "tags": settings.run_tags,
        "group": settings.run_group,
        "job_type": settings.run_job_type,
        "mode": settings.mode,
        "dir": os.path.abspath(settings.root_dir),
        "config": {name: value for name, value in run.config.items() if name != "_wandb"},
    }
    # One begun here counts also the rows that it left out; one that is disabled counts nothing.
    step = getattr(run, "_local_step", 0) if run._init_pid == os.getpid() else run.step
    return Identity(run.id, run._init_pid, step, arguments, kept)


def take_up(restoring: Restoring, wanted: Identity, first: Identity | None) -> Any:
    """`first`: the one to which `wandb.log` goes, if that is another. The first that is begun becomes it."""
    wandb: Any = import_module("wandb")
    if first is not None:
        take_up(restoring, first, None)
    if wandb.run is not None and wandb.run.id == wanted.id:
        return wandb.run
    service = os.environ.get(SERVICE, "")
    if not _answers(service):
        os.environ.pop(SERVICE, None)
    elif _starter(service) == wanted.owner:
        return join(wanted.id, wanted.owner, service, wanted.arguments["config"])
    arguments = {name: value for name, value in wanted.arguments.items() if value is not None}
    arguments["settings"] = wandb.Settings(**wanted.settings)
    if first is not None:
        arguments |= {"reinit": "create_new"} | ({"mode": "offline"} if wandb.run.offline else {})
    run = _begun(restoring, wandb, wanted.id, arguments)
    if wanted.step < run.starting_step:
        _leave_out_what_is_there(run, wanted.step)
    elif wanted.step > 0:
        run.log({}, step=wanted.step, commit=False)  # also where W&B stands there: else run.step begins at 0
    return run


def _leave_out_what_is_there(run: Any, step: int) -> None:
    """Have rows appear once: W&B would put those that are logged again behind the others, at later steps."""
    publish, there = run._partial_history_callback, run.starting_step
    run._local_step = step

    def publish_new(data: Any, step: int | None = None, commit: bool | None = None) -> None:
        at = run._local_step if step is None else step
        if at >= there:
            publish(data, at, commit)

    run._partial_history_callback = publish_new


def _begun(restoring: Restoring, wandb: Any, name: str, arguments: dict[str, Any]) -> Any:
    if arguments["mode"] in ("offline", "disabled", "dryrun"):
        return wandb.init(id=name, **arguments)
    try:
        return wandb.init(id=name, resume="allow", **arguments)
    except wandb.Error as error:  # no reason to keep a training from going on
        wandb.teardown()  # else W&B's process has the run as begun
        restoring.remarks.append(
            f"The W&B run {name} cannot be taken up online ({' '.join(str(error).split())})."
            " It goes on offline: `wandb sync` sends it later."
        )
        return wandb.init(id=name, **arguments | {"mode": "offline"})


def fill_run(run: Any, history: Any) -> None:
    made = run._torch  # making one is what lets W&B's hooks find torch
    vars(made).update(vars(history))


def _reduce_part(obj: Any, pickler: SnapshotPickler, name: str, callback: str) -> Reduced:
    run = getattr(vars(obj).get(callback), "__self__", None)
    if run is not None and _is_live(run) and getattr(run, name) is obj:
        return getattr, (run, name)
    return INSTANCE.reduce(obj, pickler)


def _answers(service: str) -> bool:
    """Whether the process is there: the notebook may have started one, and this environment is the notebook's."""
    path = service.partition("-unix-")[2]
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(path)
        except OSError:
            return False
    return bool(path)


def _starter(service: str) -> int:
    parts = service.split("-")
    return int(parts[1]) if len(parts) > 2 and parts[1].isdecimal() else 0
