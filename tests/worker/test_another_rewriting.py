"""A checkpoint whose places in the cell are called otherwise is refused before anything of it is opened."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_gpufit.errors import NotResumable
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.worker.keeper import REWRITING, Keeper
from tests.checkpoint.snapshots import about, training, writing
from tests.people import PATIENCE

pytestmark = pytest.mark.slow  # starts the process that writes


def test_it_is_refused_with_what_to_do(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    paths.checkpoints.mkdir(mode=0o700)
    with writing(paths.checkpoints) as writer:
        here = replace(about(), python=platform.python_version(), transformer=f"{int(REWRITING) - 1}")
        writer.save(training(1), here).result(PATIENCE)
    value = SimpleNamespace(name="bert", paths=paths, memory=SimpleNamespace(fds=()), program=None, namespace={})

    with pytest.raises(NotResumable) as refused:
        Keeper(cast(Any, value), lambda wanted: None).restore()

    assert f"cells of {int(REWRITING) - 1}, here {REWRITING}" in str(refused.value)
    assert "Resume it with that version" in str(refused.value)
