"""The fixtures of the pretended GPUs; apart, since pytest wants to be the first to import a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import FakeNvml, build_library


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake_nvml(tmp_path: Path, nvml_library: Path) -> FakeNvml:
    return FakeNvml(tmp_path, nvml_library)
