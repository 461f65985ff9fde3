"""What the facts of an environment mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit import __version__
from jupyter_gpufit.devices.nvml import DriverFacts
from jupyter_gpufit.examine.findings import Finding
from jupyter_gpufit.examine.user import judge
from jupyter_gpufit.examine.user.environments import Kernel, Packages, Panel, ServerExtension
from jupyter_gpufit.examine.user.facts import (
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
from jupyter_gpufit.examine.user.judge import runs_on
from jupyter_gpufit.lab import Lab
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB


def levels(findings: Iterable[Finding]) -> list[str]:
    found = list(findings)
    assert all(finding.mend for finding in found if finding.level != "ok"), "every finding says what to do next"
    return [finding.level for finding in found]


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
            DevicesFound((fake_device(), fake_device(problem="GPU is lost.")), DriverFacts("580", "13.0")),
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


LOGIN = LoginFound(managed=True, lingers=False, service="", kills=True, runtime_goes=True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (replace(LOGIN, managed=False), []),
        (replace(LOGIN, lingers=True, service="jupyter-ada.service"), []),
        (LOGIN, ["bad"]),
        (replace(LOGIN, kills=False), ["note"]),
        (replace(LOGIN, kills=False, runtime_goes=False), []),
        (replace(LOGIN, managed=False, service="jupyter-ada.service"), ["note"]),
    ],
)
def test_judges_what_a_logout_does(found: LoginFound, expected: list[str]) -> None:
    assert levels(judge.login(found)) == expected


def test_judges_the_lab_and_the_sockets() -> None:
    assert levels(judge.lab(Lab(Path("/run/gpufit"), shared=True))) == ["ok"]
    assert levels(judge.lab(Lab(Path("/tmp/lab"), shared=False, remark="Claims are private to you."))) == ["note"]
    assert levels(judge.lab(Lab(Path("/tmp/lab"), shared=False))) == ["ok"]  # with slots alone, or for one person
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
