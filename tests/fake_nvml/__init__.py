"""Pretend GPUs: a real libnvidia-ml.so.1, built from fake_nvml.c, that answers from a JSON file.

A test module takes the fixtures with `pytest_plugins = ["tests.fake_nvml.fixtures"]`, describes a world, and gives
`fake_nvml.env` to a subprocess. The library is never loaded into the test's own process, where it would stay for all
tests after it.

    fake_nvml.show(Gpu(processes=(Holder(pid=1),)), Gpu(errors={"*": NvmlCode.GPU_IS_LOST}))
    subprocess.run([sys.executable, "-c", "..."], env=fake_nvml.env)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jupyter_gpufit.units import GiB, MiB

SOURCE = Path(__file__).with_name("fake_nvml.c")
Codes = Mapping[str, int]  # the NVML code that a function answers with; "*" stands for every function


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds memory."""

    pid: int
    bytes: int | None = GiB  # None: the driver does not say
    uses: str = "compute"  # or "graphics", "mps", or several of them
    release: float | None = None  # seconds its memory stays taken after its death; None: listed whether it lives or not


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A MIG instance."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    total: int = 10 * GiB
    reserved: int = 0
    unlisted: int = 0
    processes: tuple[Holder, ...] = ()
    gpu_instance: int = 1
    compute_instance: int = 0
    errors: Codes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU; what is None it does not support."""

    uuid: str = ""  # empty: fake_uuid of its index
    name: str = "NVIDIA H100 80GB HBM3"
    total: int = 80 * GiB
    reserved: int = 512 * MiB
    unlisted: int = 0  # bytes that no listed process holds
    processes: tuple[Holder, ...] = ()
    instances: tuple[Instance, ...] | None = None  # None: MIG is off
    utilisation: int | None = 0
    memory_utilisation: int | None = 0
    temperature: int | None = 40
    power: int | None = 70_000  # milliwatts
    power_limit: int | None = 700_000
    fan: int | None = None
    performance: int = 0
    persistence: int = 1
    compute_mode: int = 0
    display: int = 0
    capability: tuple[int, int] | None = (9, 0)
    errors: Codes = field(default_factory=dict)


def fake_uuid(index: int) -> str:
    """The UUID of the GPU with this index."""
    return f"GPU-{index:08x}-1111-2222-3333-444444444444"


@dataclass(frozen=True)
class FakeNvml:
    """One pretended machine, with its files in `folder`. Until a world is shown, its driver is not loaded."""

    folder: Path
    library: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process that shall see this machine's GPUs."""
        found = {"LD_LIBRARY_PATH": str(self.library.parent), "FAKE_NVML_STATE": str(self._state)}
        return {**os.environ, **found, "FAKE_NVML_LOG": str(self._log)}

    def show(
        self,
        *gpus: Gpu,
        driver: str = "580.65.06",
        cuda: int = 13000,
        generation: int = 0,  # another one: the driver was reloaded
        errors: Codes | None = None,
        delays: Mapping[str, float] | None = None,  # seconds a function takes
    ) -> None:
        """Make the world so, also for processes that run already."""
        named = [asdict(gpu if gpu.uuid else replace(gpu, uuid=fake_uuid(i))) for i, gpu in enumerate(gpus)]
        world = {"gpus": named, "driver": driver, "cuda": cuda, "generation": generation}
        aside = self._state.with_suffix(".aside")
        aside.write_text(json.dumps({**world, "errors": errors or {}, "delays": delays or {}}))
        now = time.time_ns()
        os.utime(aside, ns=(now, now))  # finer than the file system's own stamps, by which the library knows the change
        os.replace(aside, self._state)

    def unload(self) -> None:
        """Take the driver away."""
        self._state.unlink(missing_ok=True)

    def let_pass(self, seconds: float) -> None:
        """Let this time pass for the memory of processes whose death was seen."""
        for mark in self.folder.glob("nvml.json.*.dead"):
            then = mark.stat().st_mtime - seconds
            os.utime(mark, (then, then))

    def calls(self) -> list[str]:
        """The NVML functions called since the last time this was asked."""
        try:
            called = self._log.read_text().split()
        except FileNotFoundError:
            return []
        self._log.unlink()
        return called

    @property
    def _state(self) -> Path:
        return self.folder / "nvml.json"

    @property
    def _log(self) -> Path:
        return self.folder / "nvml.log"


def build_library(folder: Path, *, driver: int = 580) -> Path:
    """Compile the library as a driver of that series would bring it; skip the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("NO C COMPILER: nothing that reads GPUs is tested here. Install gcc.")
    library = folder / "libnvidia-ml.so.1"
    # Only what is marked as NVML's is visible: a test of a missing function must not find it elsewhere.
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    subprocess.run([compiler, *flags, f"-DDRIVER={driver}", "-o", str(library), str(SOURCE)], check=True)
    return library


def run(fake: FakeNvml, program: str) -> Any:
    """What a Python program on the pretended machine prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", dedent(program)], env=fake.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
