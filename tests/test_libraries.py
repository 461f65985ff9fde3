"""What becomes of tests whose library is missing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.libraries import need


def test_a_library_that_is_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WITH_LIBRARIES", "true")

    need("torch", "numpy")


def test_a_missing_library_fails_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WITH_LIBRARIES", "true")

    with pytest.raises(pytest.fail.Exception, match=r"no_such_library is not installed. pip install -e"):
        need("torch", "no_such_library")


def test_elsewhere_it_skips_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WITH_LIBRARIES", raising=False)

    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no_such_library"):
        need("no_such_library")


def test_what_is_installed_brings_no_torch_of_its_own() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

    libraries = {one.partition(">=")[0] for one in project["optional-dependencies"]["libraries"]}

    assert not libraries & {"torchvision", "torchaudio", "fastai", "timm"}
