"""`gpufit doctor`: what is judged how, and the real command on good, odd and broken environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit import __version__
from jupyter_gpufit.claims import Lab
from jupyter_gpufit.doctor import environments, facts, judge
from jupyter_gpufit.doctor.environments import Kernel, Packages, Panel, ServerExtension, python_version
from jupyter_gpufit.doctor.facts import (
    DataFound,
    DevicesFound,
    Inotify,
    Limits,
    LoginFound,
    RuntimeFound,
    SettingsFound,
    SharedMemory,
    TorchFound,
)
from jupyter_gpufit.doctor.judge import runs_on
from jupyter_gpufit.findings import Finding
from jupyter_gpufit.nvml import Driver, NvmlCode
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB

from .fake_nvml import FakeNvml, Gpu

LONGEST = 300.0  # seconds to wait for torch, on a machine that is busy with other tests


def levels(findings: Iterable[Finding]) -> list[str]:
    found = list(findings)
    assert all(finding.mend for finding in found if finding.level != "ok"), "every finding says what to do next"
    return [finding.level for finding in found]


# What the facts mean

NO_GPU = DevicesFound((), None, "No GPU is usable here: the driver is not installed.")
CUDA = {
    "version": "2.6.0",
    "cuda": "12.4",
    "hip": None,
    "available": True,
    "count": 2,
    "kernels": ["sm_80", "sm_90", "compute_90"],
    "capabilities": [[9, 0]],
    "warnings": [],
}
DATA = DataFound(Path("/home/ann/jobs"), "", "", "ext4", 100 * GiB)
PACKAGES = Packages("/env/bin/python", "0.1.0", "7.0.1", "4.4.0")
KERNEL = Kernel("old", "/old/bin/python", __version__, "7.0.0")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SettingsFound("", ("devices",), (), ()), ["ok"]),
        (SettingsFound("The setting device cannot be used.", (), (), ()), ["bad"]),
        (SettingsFound("", (), ("GPUFIT_DEVICE",), ("GPUFIT_DEVICES",)), ["ok", "note"]),
    ],
)
def test_judges_the_settings(found: SettingsFound, expected: list[str]) -> None:
    assert levels(judge.settings(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (NO_GPU, ["bad"]),
        (
            DevicesFound((fake_device(), fake_device(problem="GPU is lost.")), Driver("580", "13.0")),
            ["ok", "ok", "bad"],
        ),
        (DevicesFound((fake_device("cpu:0", label="cpu:0", kind="slot"),), None), ["ok"]),
    ],
)
def test_judges_the_devices(found: DevicesFound, expected: list[str]) -> None:
    assert levels(judge.devices(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected", "word"),
    [
        (TorchFound("", ""), "bad", "not installed"),
        (TorchFound("2.6.0", "12.4"), "note", "torch 2.6.0 for CUDA 12.4 took long"),
        (TorchFound("2.6.0", "", trouble="ImportError: libcudart.so.12"), "bad", "cannot be imported: ImportError"),
        (TorchFound("2.6.0", "12.4", CUDA), "ok", "for CUDA 12.4 uses 2 GPUs"),
        (TorchFound("2.6.0", "", {**CUDA, "available": False, "cuda": None}), "bad", "built for the CPU only"),
        (TorchFound("2.6.0", "", {**CUDA, "available": False, "capabilities": []}), "ok", "works on the CPU"),
        (
            TorchFound("2.9.0", "13.0", {**CUDA, "available": False, "warnings": ["The NVIDIA driver is too old"]}),
            "bad",
            "cannot use the GPUs. It says: The NVIDIA driver is too old",
        ),
    ],
)
def test_judges_torch(found: TorchFound, expected: str, word: str) -> None:
    (finding,) = judge.torch(found)

    assert levels([finding]) == [expected]
    assert word in finding.what


def test_names_a_gpu_for_which_torch_has_no_code() -> None:
    says = {**CUDA, "capabilities": [[9, 0], [7, 0]]}

    _, finding = judge.torch(TorchFound("2.6.0", "12.4", says))

    assert finding.level == "bad" and "compute capability 7.0 (it has sm_80 sm_90 compute_90)" in finding.what


@pytest.mark.parametrize(
    ("kernels", "capability", "expected"),
    [
        (["sm_80"], (8, 0), True),
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_80"], (9, 0), False),
        (["sm_80", "compute_80"], (9, 0), True),
        (["compute_90"], (8, 0), False),
        (["sm_100", "sm_120"], (12, 0), True),
        (["sm_90a"], (9, 0), True),
        (["gfx90a"], (9, 0), False),
    ],
)
def test_knows_which_gpus_code_runs_on(kernels: list[str], capability: tuple[int, int], expected: bool) -> None:
    assert runs_on(kernels, *capability) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (DATA, ["ok"]),
        (replace(DATA, trouble="Disk quota exceeded"), ["bad"]),
        (replace(DATA, free=GiB), ["note"]),
        (replace(DATA, free=MiB), ["bad"]),
        (replace(DATA, others="Others can look into it."), ["ok", "bad"]),
        (replace(DATA, file_system="nfs4"), ["ok", "note"]),
    ],
)
def test_judges_the_data_directory(found: DataFound, expected: list[str]) -> None:
    assert levels(judge.data(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (LoginFound(managed=False, lingers=False, kills=True, runtime_goes=True), []),
        (LoginFound(managed=True, lingers=True, kills=True, runtime_goes=True), []),
        (LoginFound(managed=True, lingers=False, kills=True, runtime_goes=True), ["bad"]),
        (LoginFound(managed=True, lingers=False, kills=False, runtime_goes=True), ["note"]),
        (LoginFound(managed=True, lingers=False, kills=False, runtime_goes=False), []),
    ],
)
def test_judges_what_a_logout_does(found: LoginFound, expected: list[str]) -> None:
    assert levels(judge.login(found)) == expected


def test_judges_the_lab_and_the_sockets() -> None:
    assert levels(judge.lab(Lab(Path("/run/gpufit"), shared=True))) == ["ok"]
    assert levels(judge.lab(Lab(Path("/tmp/lab"), shared=False, remark="Claims are private to you."))) == ["note"]
    assert levels(judge.runtime(RuntimeFound("/run/user/1000", ""))) == ["ok"]
    assert levels(judge.runtime(RuntimeFound("", "The path is too long."))) == ["bad"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (PACKAGES, ["ok", "ok"]),
        (replace(PACKAGES, ipykernel="6.29.5"), ["ok", "bad"]),
        (replace(PACKAGES, ipykernel=""), ["ok", "bad"]),
        (replace(PACKAGES, jupyterlab=""), ["ok", "ok", "note"]),
    ],
)
def test_judges_the_packages(found: Packages, expected: list[str]) -> None:
    assert levels(judge.packages(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ServerExtension(True, "a.json", ""), ["ok"]),
        (ServerExtension(False, "a.json", ""), ["bad"]),
        (ServerExtension(None, "", ""), ["bad"]),
        (ServerExtension(True, "a.json", "/opt/hub/bin/python"), ["ok", "note"]),
    ],
)
def test_judges_the_server_extension(found: ServerExtension, expected: list[str]) -> None:
    assert levels(judge.server_extension(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Panel(__version__, "/share", ""), ["ok"]),
        (Panel("", "", ""), ["bad"]),
        (Panel("0.0.1", "/share", ""), ["bad"]),
        (Panel(__version__, "/share", "page_config.json"), ["ok", "bad"]),
    ],
)
def test_judges_the_panel(found: Panel, expected: list[str]) -> None:
    assert levels(judge.panel(found)) == expected


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (KERNEL, "ok"),
        (replace(KERNEL, ours=""), "note"),
        (replace(KERNEL, ours="0.0.1"), "bad"),
        (replace(KERNEL, ipykernel="6.29.5"), "bad"),
        (replace(KERNEL, trouble="it is gone"), "note"),
    ],
)
def test_judges_other_kernels(kernel: Kernel, expected: str) -> None:
    assert levels(judge.kernels((kernel,))) == [expected]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SharedMemory("", 8 * GiB, 8 * GiB), ["ok"]),
        (SharedMemory("", 64 * MiB, 64 * MiB), ["note"]),
        (SharedMemory("", 8 * GiB, MiB), ["note"]),
        (SharedMemory("", None, 0), ["note"]),
        (SharedMemory("EPERM (Operation not permitted)", 8 * GiB, 8 * GiB), ["bad"]),
    ],
)
def test_judges_shared_memory(found: SharedMemory, expected: list[str]) -> None:
    assert levels(judge.shared_memory(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Limits(1024, 4096, None), ["ok"]),
        (Limits(None, None, None), ["ok"]),
        (Limits(256, 4096, None), ["note"]),
        (Limits(64, 64, None), ["bad"]),
        (Limits(1024, 4096, 8 * GiB), ["bad"]),
    ],
)
def test_judges_the_limits(found: Limits, expected: list[str]) -> None:
    assert levels(judge.limits(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Inotify("", 65536, 128), ["ok"]),
        (Inotify("", None, None), ["ok"]),
        (Inotify("", 1000, 16), ["note", "note"]),
        (Inotify("EMFILE (Too many open files)", 65536, 128), ["bad"]),
    ],
)
def test_judges_watching_files(found: Inotify, expected: list[str]) -> None:
    assert levels(judge.inotify(found)) == expected


# What is asked


def test_a_directory_that_nobody_can_write_is_seen(tmp_path: Path) -> None:
    assert facts.data(Settings(data="/proc/self")).trouble
    assert facts.data(Settings(data=str(tmp_path / "new"))).trouble == ""


def test_a_data_directory_that_others_can_enter_is_seen(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir(mode=0o700)
    assert facts.data(Settings(data=str(tmp_path))).others == ""

    jobs.chmod(0o755)
    assert "mode 755" in facts.data(Settings(data=str(tmp_path))).others
    jobs.chmod(0o777)
    assert "can be written by others" in facts.data(Settings(data=str(tmp_path))).others


def test_a_runtime_directory_with_a_long_name_is_seen(tmp_path: Path) -> None:
    assert facts.runtime(Settings(runtime=str(tmp_path / "r"))).trouble == ""
    assert list((tmp_path / "r").iterdir()) == []

    assert "GPUFIT_RUNTIME" in facts.runtime(Settings(runtime=str(tmp_path / ("r" * 100)))).trouble


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's Jupyter folder, before which nothing counts."""
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    return tmp_path


def write(path: Path, what: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(what))


def test_the_last_configuration_of_the_server_extension_counts(jupyter: Path) -> None:
    said = {"ServerApp": {"jpserver_extensions": {"jupyter_gpufit": False}}}
    write(jupyter / "jupyter_server_config.d" / "a.json", {"ServerApp": {"jpserver_extensions": {}}})
    write(jupyter / "jupyter_server_config.json", said)

    found = environments.server_extension()

    assert (found.enabled, found.said_in) == (False, str(jupyter / "jupyter_server_config.json"))


def test_reads_the_panels_version_and_that_it_is_disabled(jupyter: Path) -> None:
    write(jupyter / "labextensions" / "jupyter-gpufit" / "package.json", {"version": "0.2.0-rc.1"})
    write(jupyter / "labconfig" / "page_config.json", {"disabledExtensions": {"jupyter-gpufit:panel": True}})

    found = environments.panel()

    assert found.version == "0.2.0rc1"
    assert found.disabled_in.endswith("page_config.json")


@pytest.mark.parametrize(
    ("npm", "python"), [("0.1.0", "0.1.0"), ("0.2.0-alpha.3", "0.2.0a3"), ("1.0.0-rc.1", "1.0.0rc1"), ("?", "?")]
)
def test_spells_versions_as_python_does(npm: str, python: str) -> None:
    assert python_version(npm) == python


@pytest.mark.slow
def test_asks_the_pythons_of_other_kernels(jupyter: Path) -> None:
    bare, broken = jupyter / "bare", jupyter / "broken"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    for name, python in (("here", sys.executable), ("bare", str(bare / "bin" / "python")), ("broken", str(broken))):
        spec = {"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
        write(jupyter / "kernels" / name / "kernel.json", spec)
    write(jupyter / "kernels" / "r" / "kernel.json", {"argv": ["R", "--slave"], "language": "R"})

    found = {kernel.name: kernel for kernel in environments.kernels(LONGEST)}

    assert set(found) >= {"bare", "broken"} and "here" not in found and "r" not in found
    assert (found["bare"].ours, found["bare"].trouble) == ("", "")
    assert found["broken"].trouble == "no such module"


# The command


def doctor(tmp_path: Path, *words: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, str]]:
    """Its exit code, and what it found: sentences with their levels."""
    program = Path(sys.executable).with_name("gpufit")
    home = {"HOME": str(tmp_path), "GPUFIT_RUNTIME": str(tmp_path / "r")}
    done = subprocess.run(
        [program, "doctor", "--json", "--wait", str(LONGEST), *words],
        env={**os.environ, **home, **(env or {})},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["ok"] is (done.returncode == 0)
    return done.returncode, {finding["what"]: finding["level"] for finding in said["findings"]}


def level_of(found: dict[str, str], word: str) -> str:
    (level,) = (level for what, level in found.items() if word in what)
    return level


@pytest.mark.slow
def test_an_environment_with_slots_is_well(tmp_path: Path) -> None:
    _, found = doctor(tmp_path, env={"GPUFIT_DEVICES": "cpu:2x4GiB"})

    assert level_of(found, "2 CPU slots") == "ok"
    assert level_of(found, "torch") == "ok"
    assert level_of(found, "Control sockets") == "ok"
    assert not any("could not be examined" in what for what in found)


@pytest.mark.slow
def test_names_each_gpu_and_the_driver(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.show(Gpu(), Gpu(errors={"*": NvmlCode.GPU_IS_LOST}), driver="550.54.15", cuda=12040)

    code, found = doctor(tmp_path, env=fake_nvml.env)

    assert code == 1
    assert level_of(found, "driver is 550.54.15, for CUDA up to 12.4") == "ok"
    assert level_of(found, "GPU 0 (NVIDIA H100") == "ok"
    assert level_of(found, "GPU is lost") == "bad"


@pytest.mark.slow
def test_examines_the_rest_when_the_settings_cannot_be_read(tmp_path: Path) -> None:
    config = tmp_path / "config" / "gpufit"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('device = "cpu"')

    code, found = doctor(tmp_path, env={"XDG_CONFIG_HOME": str(config.parent), "GPUFIT_DEVICE": "cpu"})

    assert code == 1
    assert level_of(found, "there is no such setting. Did you mean devices") == "bad"
    assert level_of(found, "GPUFIT_DEVICE looks like a setting") == "note"
    assert level_of(found, "Files can be watched") == "ok"


@pytest.mark.slow
def test_a_driver_that_hangs_hides_nothing_else(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.show(Gpu(), delays={"nvmlInitWithFlags": 600})
    start = time.monotonic()

    _, found = doctor(tmp_path, "--wait", "6", env=fake_nvml.env)

    assert time.monotonic() - start < 300
    assert level_of(found, "The devices could not be examined within 6 s") == "note"
    assert level_of(found, "Files can be watched") == "ok"


@pytest.mark.slow
def test_a_file_called_torch_is_not_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('not the real one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    (finding,) = judge.torch(facts.torch(LONGEST))

    assert finding.level == "bad" and "not the real one" in finding.what
