"""`gpufit doctor`: what is asked, and the real command on good, odd and broken environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.devices.nvml import NvmlCode
from jupyter_gpufit.examine.user import environments, facts, judge
from jupyter_gpufit.examine.user.environments import python_version
from jupyter_gpufit.settings import Settings

from ...fake_nvml import FakeNvml, Gpu

LONGEST = 300.0  # seconds to wait for torch, on a machine that is busy with other tests


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
