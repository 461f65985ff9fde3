"""The notebook's side of a deployed model: a variable's module exported, and the handle that is called."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from ..actions.deploy import ModelOrigin, files_of
from ..errors import BadOption, did_you_mean
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..settings import Settings
from .new_job import kernel_id_of, notebook_of

if TYPE_CHECKING:
    from ..calls.client import DeployedModel, DeployedModels  # kernels start faster without


@asynccontextmanager
async def origins_of(
    shell: InteractiveShell, settings: Settings, options: argparse.Namespace, say: Callable[[str], None]
) -> AsyncIterator[list[ModelOrigin]]:
    """The files that are meant, or the one that a variable's module is exported to, which is gone afterwards."""
    [name, *more] = options.models
    if not more and _is_variable(shell, name):
        folder = Path(tempfile.mkdtemp(prefix="gpufit-export-"))
        try:
            path = folder / f"{name}.onnx"
            yield [_known(shell, settings, _exported(shell, name, options.example, options.weights, path, say))]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        yield [_known(shell, settings, one) for one in files_of(options)]


def handle(settings: Settings, job: Job, paths: JobPaths) -> DeployedModel | DeployedModels:
    """What is called."""
    from ..calls.client import DeployedModel, DeployedModels

    assert job.model is not None
    return (DeployedModels if job.model.several else DeployedModel)(settings, job, paths)


def _is_variable(shell: InteractiveShell, name: str) -> bool:
    return name in shell.user_ns and not Path(name).is_file()


def _known(shell: InteractiveShell, settings: Settings, origin: ModelOrigin) -> ModelOrigin:
    return replace(origin, notebook=notebook_of(shell, settings), kernel_id=kernel_id_of(shell))


def _exported(
    shell: InteractiveShell, name: str, example: str, weights: str, path: Path, say: Callable[[str], None]
) -> ModelOrigin:
    """In the kernel's main thread, where its tensors are."""
    from ..models.export import export
    from ..models.weighted import weighted

    if not example:
        raise BadOption(
            f"{name} is a variable. To export it, say what it is called with: net = %gpufit deploy {name} --example x"
        )
    if example not in shell.user_ns:
        near = did_you_mean(example, [one for one in shell.user_ns if not one.startswith("_")])
        raise BadOption(f"There is no variable {example!r}.{near}")
    module = shell.user_ns[name]
    if weights:
        module = weighted(module, Path(weights).expanduser(), name)
    say(export(module, shell.user_ns[example], path, name).words)
    return ModelOrigin(path=path, words=name, name=name)
