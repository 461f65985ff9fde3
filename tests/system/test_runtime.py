"""Where a user's sockets are when somebody else has taken the usual place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jupyter_gpufit.errors import StorageError
from jupyter_gpufit.jobs.paths import socket_path
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system import runtime
from jupyter_gpufit.system.runtime import runtime_of
from tests.kernels import environment, running_kernel


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a user without a runtime directory of the system's, whose /tmp is `tmp_path`."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(runtime, "SHARED", str(tmp_path))
    return Settings(data=str(tmp_path / "data"))


def usual(tmp_path: Path) -> Path:
    return tmp_path / f"gpufit-{os.getuid()}"


def test_the_usual_place_is_used_where_it_can_be(settings: Settings, tmp_path: Path) -> None:
    found = runtime_of(settings)
    assert found.path == usual(tmp_path) and not found.remark and found.path.stat().st_mode & 0o777 == 0o700


def test_a_place_that_somebody_else_made_first_keeps_nobody_from_training(settings: Settings, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: makes a directory of another user's")
    usual(tmp_path).mkdir(mode=0o700)
    os.chown(usual(tmp_path), 1, 1)
    found = runtime_of(settings)
    assert f"{usual(tmp_path)} is not used, because it belongs to daemon" in found.remark
    assert found.path.parent == tmp_path and found.path.stat().st_mode & 0o777 == 0o700
    assert found.path != usual(tmp_path) and runtime_of(settings) == found  # all of one's processes come to it
    assert len(os.fsencode(socket_path(settings, "abc234"))) < 108
    found.path.rmdir()  # by whoever cleans /tmp
    again = runtime_of(settings)
    assert again.path != found.path and again.path.is_dir() and runtime_of(settings) == again


@pytest.mark.parametrize("kind", ["a link", "a file", "open to all"])
def test_what_is_no_directory_of_ones_own_is_not_used(settings: Settings, tmp_path: Path, kind: str) -> None:
    place = usual(tmp_path)
    match kind:
        case "a link":
            place.symlink_to(tmp_path)
        case "a file":
            place.touch()
        case _:
            place.mkdir(mode=0o777)
            place.chmod(0o777)
    found = runtime_of(settings)
    assert found.path != place and "it is not a directory that only you can enter" in found.remark


def test_one_that_was_left_from_another_login_is_not_used(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/1")  # as after su
    assert "/proc/1/gpufit is not used" in runtime_of(settings).remark


def test_one_that_was_chosen_is_never_passed_over(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(StorageError, match="GPUFIT_RUNTIME"):
        runtime_of(Settings(runtime=str(tmp_path / "run"), data=str(tmp_path)))


@pytest.mark.slow
def test_a_cell_trains_although_the_usual_place_is_taken_and_says_whose_it_is(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: makes a directory of another user's")
    taken = tmp_path / "run" / "gpufit"
    taken.mkdir(parents=True)
    os.chown(taken, 1, 1)
    with running_kernel(environment(tmp_path, GPUFIT_ESTIMATE_LIMIT="0"), tmp_path) as kernel:
        ran = kernel.check("%%gpufit train\nprint('trained')\n")
        assert ran.stdout == "trained\n" and "because it belongs to daemon" in ran.shown
    noted = (tmp_path / ".local/share/gpufit/runtime").read_text()
    assert Path(noted).is_dir()
    shutil.rmtree(noted)
