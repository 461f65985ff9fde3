"""A cell becomes a job: its name, and what it is to be known by."""

from __future__ import annotations

import argparse
import io
import os
import platform
import re
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import psutil
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from ..jobs.job import Job, Options, new_job_id
from ..jobs.names import check_free, free_name
from ..jobs.renamed import where_now
from ..settings import Settings
from ..system.version import version


def new_job(shell: InteractiveShell, settings: Settings, options: argparse.Namespace, line: str, cell: str) -> Job:
    """The job of this cell; refused where its name is of one that runs, or waits to be resumed."""
    notebook = notebook_of(shell, settings)
    name = options.name or free_name(settings, Path(notebook).stem or "cell")
    check_free(settings, name)
    return Job(
        id=new_job_id(),
        name=name,
        source=cell,
        magic_line=f"%%gpufit {line}",
        options=Options(
            gpu=options.gpu,
            memory=options.memory,
            exclusive=options.exclusive,
            gpus=options.gpus,
            fit=options.fit or "",
        ),
        created=time.time(),
        cwd=os.getcwd(),
        notebook=notebook,
        kernel_id=kernel_id_of(shell),
        cell=_cell_id(shell),
        version=version(),
        versions={"Python": platform.python_version(), **_torch()},
    )


def _torch() -> dict[str, str]:
    with suppress(PackageNotFoundError):
        return {"torch": installed("torch")}
    return {}


def notebook_of(shell: InteractiveShell, settings: Settings) -> str:
    """Its path; empty: this is no notebook's kernel."""
    when_it_began = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter's server
    return where_now(settings, when_it_began, _began(shell))


def kernel_id_of(shell: InteractiveShell) -> str:
    """What Jupyter calls this kernel; empty: it has no name."""
    found = re.search(r"kernel-([\w-]+)\.json", _connection_file(shell))
    return found[1] if found else ""


def _began(shell: InteractiveShell) -> float:
    """When Jupyter told it its notebook. A restart keeps that name, and the file by which the kernel is reached."""
    process = psutil.Process().create_time()
    try:
        return min(process, os.stat(_connection_file(shell)).st_mtime)
    except OSError:
        return process


def _connection_file(shell: InteractiveShell) -> str:
    return str(getattr(getattr(getattr(shell, "kernel", None), "parent", None), "abs_connection_file", ""))


def _cell_id(shell: InteractiveShell) -> str:
    """As the front end told it with the request that runs this cell; empty: nobody did, or it is to show nothing."""
    if isinstance(shell.display_pub, CapturingDisplayPublisher) or isinstance(sys.stdout, io.StringIO):
        return ""  # %%capture: no page may put there after a reload what went into a variable
    request: dict[str, Any] = getattr(getattr(shell, "kernel", None), "get_parent", dict)()
    told = request.get("metadata", {}).get("cellId", "")
    return told if isinstance(told, str) else ""
