"""The process that asks the driver: it suspends and restores another process's CUDA by its pid, and uses no device.

A line of JSON in, a line out: why it could not be done, or nothing. It ends when whoever started it goes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

OLDEST = 13_00_0  # as cuDriverGetVersion counts: CUDA 13.0 came with driver 580
LOCK_PATIENCE = 10_000  # ms for what is queued on the device


def probe() -> str:
    """Why nothing can be suspended here."""
    try:
        import_module("cuda.core.checkpoint")
        driver = import_module("cuda.bindings.driver")
    except ImportError as missing:
        return f"cuda.core is not usable ({missing}): pip install 'cuda-core>=1.2' 'cuda-bindings>=13.0.2'"
    error, version = driver.cuDriverGetVersion()
    if int(error) or version < OLDEST:
        return f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, and 13.0 is needed (driver 580)"
    (error,) = driver.cuInit(0)  # a restore needs it where the driver is not kept loaded (persistence mode)
    return f"CUDA does not start ({error})" if int(error) else ""


def suspend(pid: int) -> str:
    """Stop the process's calls of CUDA, and take its state off the device."""
    process = _process(pid)
    process.lock(timeout_ms=LOCK_PATIENCE)
    try:
        process.checkpoint()
    except Exception:
        with suppress(Exception):  # the driver promises nothing any more; the process is about to be ended
            process.unlock()
        raise
    return _unless(process, "checkpointed")


def restore(pid: int, to: dict[str, str]) -> str:
    """Put it on the device again, or with `to` on another one; its calls still wait."""
    process = _process(pid)
    process.restore(gpu_mapping=to or None)
    return _unless(process, "locked")


def unlock(pid: int) -> str:
    """Let its calls of CUDA go on."""
    process = _process(pid)
    process.unlock()
    return _unless(process, "running")


DEEDS: dict[str, Callable[..., str]] = {"probe": probe, "suspend": suspend, "restore": restore, "unlock": unlock}


def _process(pid: int) -> Any:
    return import_module("cuda.core.checkpoint").Process(pid)


def _unless(process: Any, wanted: str) -> str:
    return "" if (state := process.state) == wanted else f"the driver calls the process {state}, and not {wanted}"


def _answer(line: str) -> str:
    asked = json.loads(line)
    try:
        return DEEDS[asked.pop("do")](**asked)
    except Exception as error:  # the outermost frame: whatever the driver says is the answer
        return f"{type(error).__name__}: {error}".rstrip(".")


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
