"""Which directory is the lab, and which must not be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.errors import LabUnsound
from jupyter_gpufit.lab import Lab, open_lab
from jupyter_gpufit.lab import directory as lab_module
from jupyter_gpufit.lab.directory import file_system, unsound
from jupyter_gpufit.settings import Settings
from tests.lab.conftest import make_shared
from tests.lab.test_place import gpu
from tests.lab.values import slots

GPU, SLOTS = gpu(0), slots(4, 4)
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: labs of root's. Run as root, in a container.")


def test_without_a_lab_claims_are_private_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_module, "SHARED", tmp_path / "none")
    lab = open_lab(Settings(runtime=str(tmp_path / "run")))

    assert (lab.path, lab.shared) == (tmp_path / "run" / "lab", False)
    assert lab.remark.startswith("Claims are private to you: they keep your own jobs apart, and other users do not")
    assert "none does not exist" in lab.remark and "sudo gpufit lab init" in lab.remark
    assert lab.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("devices", "others", "said"), [([GPU], True, True), ([GPU], False, False), (SLOTS, True, False)]
)
def test_it_is_said_where_somebody_else_would_share_a_gpu(
    monkeypatch: pytest.MonkeyPatch, devices: list[Device], others: bool, said: bool
) -> None:
    monkeypatch.setattr(lab_module, "others_have_accounts", lambda: others)
    assert bool(Lab(Path("/none"), shared=False, remark="Claims are private.").remark_on(devices)) is said


@ROOT
def test_the_machines_lab_is_used_where_there_is_one(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_module, "SHARED", shared_lab.path)
    assert open_lab(Settings()) == Lab(shared_lab.path, shared=True)
    assert open_lab(Settings(lab=str(shared_lab.path))) == Lab(shared_lab.path, shared=True)


@ROOT
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda lab: lab.chmod(0o777), "its mode is 777 and not 1777"),
        (lambda lab: os.chown(lab, 61001, 0), "it belongs to uid 61001 and not to root"),
        (lambda lab: (lab / "mutex").unlink(), "mutex does not exist"),
        (lambda lab: (lab / "mutex").chmod(0o644), "mutex is not a file of root's with mode 666"),
        (lambda lab: os.chown(lab / "mutex", 61001, 0), "mutex is not a file of root's with mode 666"),
    ],
)
def test_a_lab_that_could_be_tampered_with_is_refused(
    shared_lab: Lab, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(shared_lab.path)
    assert why in unsound(shared_lab.path)
    if shared_lab.path.stat().st_mode & 0o002 or shared_lab.path.stat().st_uid:
        with pytest.raises(LabUnsound, match="sudo gpufit lab init"):
            open_lab(Settings(lab=str(shared_lab.path)))


@ROOT
def test_a_shared_lab_must_be_on_tmpfs(tmp_path: Path) -> None:
    if file_system(tmp_path) == "tmpfs":
        pytest.skip("NOT TESTED: this machine's temporary files are on tmpfs.")
    make_shared(tmp_path)
    assert "claims are only reliable on tmpfs" in unsound(tmp_path)


def test_a_link_is_no_lab(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "mutex").touch()
    assert unsound(tmp_path / "link") == "it is not a directory"
    with pytest.raises(LabUnsound):
        open_lab(Settings(lab=str(tmp_path / "link")))


def test_a_directory_of_ones_own_can_be_named(tmp_path: Path) -> None:
    lab = open_lab(Settings(lab=str(tmp_path / "mine")))
    assert (lab.path, lab.shared) == (tmp_path / "mine", False)
    assert open_lab(Settings(lab=str(tmp_path / "mine"))) == lab


def test_the_file_system_of_a_directory_is_known() -> None:
    assert file_system(Path("/dev/shm")) == "tmpfs"
    assert file_system(Path("/proc")) == "proc"
