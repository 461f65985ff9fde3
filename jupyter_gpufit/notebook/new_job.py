"""A cell becomes a job: its name, and what it is to be known by."""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ..errors import BadOption
from ..jobs.job import Job, Options, new_job_id
from ..jobs.record import read_record
from ..jobs.store import all_jobs
from ..settings import Settings
from ..system.version import version


def new_job(shell: InteractiveShell, settings: Settings, options: argparse.Namespace, line: str, cell: str) -> Job:
    """The job of this cell; refused where its name is of one that runs, or waits to be resumed."""
    notebook = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter's server to the notebook's path
    name = options.name or _free_name(settings, Path(notebook).stem or "cell")
    _check_free(settings, name)
    return Job(
        id=new_job_id(),
        name=name,
        source=cell,
        magic_line=f"%%gpufit {line}",
        options=Options(gpu=options.gpu, memory=options.memory, exclusive=options.exclusive, fit=options.fit or ""),
        created=time.time(),
        cwd=os.getcwd(),
        notebook=notebook,
        kernel_id=_kernel_id(shell),
        cell=_cell_id(shell),
        version=version(),
    )


def _check_free(settings: Settings, name: str) -> None:
    for other, paths in all_jobs(settings):
        state = read_record(paths).state if other.name == name else "done"
        if state == "released":
            raise BadOption(
                f"Your job {name!r} is released and waits to be resumed: %gpufit resume {name}. Choose another"
                f" --name, or delete it: %gpufit clean {name}"
            )
        if state not in ("done", "failed", "stopped", "lost"):
            raise BadOption(f"Your job {name!r} is still running. Choose another --name, or stop it first.")


def _free_name(settings: Settings, stem: str) -> str:
    """The notebook's name with the next number, so that each of its jobs can be named on a line."""
    stem = re.sub(r"[^\w.-]+", "-", stem).strip("-")[:48] or "cell"
    taken = {job.name for job, _ in all_jobs(settings)}
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


def _kernel_id(shell: InteractiveShell) -> str:
    file = getattr(getattr(getattr(shell, "kernel", None), "parent", None), "connection_file", "")
    found = re.search(r"kernel-([\w-]+)\.json", file)
    return found[1] if found else ""


def _cell_id(shell: InteractiveShell) -> str:
    """As the front end told it with the request that runs this cell."""
    request: dict[str, Any] = getattr(getattr(shell, "kernel", None), "get_parent", dict)()
    told = request.get("metadata", {}).get("cellId", "")
    return told if isinstance(told, str) else ""
