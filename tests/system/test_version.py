"""What is to be typed to install into this environment."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from jupyter_gpufit.system.version import pip_install


def test_who_may_not_write_there_is_told_an_administrators_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert pip_install() == f"{sys.executable} -m pip install"
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "not ours"))
    assert pip_install() == f"sudo {sys.executable} -m pip install"
