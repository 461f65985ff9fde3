"""The front's side: have models taken by a process of its own, and wait for what it says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ModelRefused
from ..system import processes
from ..system.foreign import parsed_record
from .file import check_file
from .packages import check_packages
from .taken import TakenModel

PATIENCE = 300.0  # seconds; a model of 2 GiB takes some ten


def take_apart(paths: Sequence[Path], rows: int, sizes: Mapping[str, int]) -> list[TakenModel]:
    """Have the models checked, and learn what they are; raises NoRuntime or ModelRefused. It blocks for a while."""
    check_packages()
    for path in paths:
        check_file(path)  # here already: what is no model costs no process
    said = _ask({"paths": list(map(str, paths)), "rows": rows, "sizes": dict(sizes)}, paths[0])
    return [TakenModel.from_record(one) for one in said["taken"]]


def take_weights_out_apart(folders: Mapping[Path, Path]) -> None:
    """Write each model's shell and weights into its folder."""
    _ask({"folders": {str(path): str(folder) for path, folder in folders.items()}}, next(iter(folders)))


def _ask(asked: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    with processes.start("models", json.dumps(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            said, trouble = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ModelRefused(str(path), f"it could not be read within {PATIENCE:.0f} s.") from error
            raise
    if process.returncode != 0:
        last = trouble.decode(errors="replace").strip().splitlines()[-1:] or ["it ended unexpectedly"]
        raise ModelRefused(str(path), f"reading it failed (exit code {process.returncode}): {last[0][:300]}")
    record = parsed_record(said)
    if "refused" in record:
        raise ModelRefused(str(record["path"]), str(record["refused"]))
    return record
