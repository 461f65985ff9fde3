"""The front's side: have a model taken by a process of its own, and wait for what it says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..errors import ModelRefused
from ..system import processes
from ..system.foreign import parsed_record
from .file import check_file
from .packages import check_packages
from .taken import TakenModel

PATIENCE = 300.0  # seconds; a model of 2 GiB takes some ten


def take_apart(path: Path, rows: int, sizes: Mapping[str, int]) -> TakenModel:
    """Have the model checked, and learn what it is; raises NoRuntime or ModelRefused. It blocks for a second or so."""
    check_packages()
    check_file(path)  # here already: what is no model costs no process
    asked = json.dumps({"path": str(path), "rows": rows, "sizes": dict(sizes)})
    with processes.start("models", asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            said, trouble = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ModelRefused(str(path), f"it could not be read within {PATIENCE:.0f} s.") from error
            raise
    if process.returncode != 0:
        last = trouble.decode(errors="replace").strip().splitlines()[-1:] or ["without a word"]
        raise ModelRefused(str(path), f"reading it failed (exit code {process.returncode}): {last[0][:300]}")
    record = parsed_record(said)
    if "refused" in record:
        raise ModelRefused(str(path), str(record["refused"]))
    return TakenModel.from_record(record)
