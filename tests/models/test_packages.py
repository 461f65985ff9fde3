"""What is missing is said with the command that brings it, and two that collide with the one that parts them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from jupyter_gpufit.errors import NoRuntime
from jupyter_gpufit.models import packages


def here(monkeypatch: pytest.MonkeyPatch, *installed: str) -> None:
    """Let these packages be installed, and no others."""

    def find_spec(name: str) -> ModuleSpec | None:
        owners: Collection[str] = ("onnxruntime", "onnxruntime-gpu") if name == "onnxruntime" else (name,)
        return ModuleSpec(name, None) if set(owners) & set(installed) else None

    monkeypatch.setattr(packages, "_installed", lambda name: name in installed)
    monkeypatch.setattr(util, "find_spec", find_spec)


@pytest.mark.parametrize(
    ("installed", "gpu", "exports", "why"),
    [
        (("onnxruntime", "onnx"), False, False, ""),
        (("onnxruntime-gpu", "onnx"), False, False, ""),  # it has the CPU's provider, too
        (("onnxruntime-gpu", "onnx", "onnxscript"), True, True, ""),
        ((), False, False, "which is not installed: .* install 'jupyter_gpufit.onnx.'"),
        ((), True, False, "install 'jupyter_gpufit.onnx-gpu.'"),
        (("onnxruntime",), False, False, "the package onnx, which is not installed"),
        (("onnxruntime", "onnx"), False, True, "the package onnxscript, which is not installed"),
        (("onnxruntime", "onnx"), True, False, "runs on CPUs only. For a GPU: .* uninstall -y onnxruntime && "),
        (("onnxruntime", "onnxruntime-gpu", "onnx"), True, False, "both installed, .* install onnxruntime-gpu$"),
        (("onnxruntime", "onnxruntime-gpu", "onnx"), False, False, "both installed, .* install onnxruntime$"),
    ],
)
def test_what_is_installed_decides(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], gpu: bool, exports: bool, why: str
) -> None:
    here(monkeypatch, *installed)
    if not why:
        packages.check_packages(gpu=gpu, exports=exports)
        return
    with pytest.raises(NoRuntime, match=why):
        packages.check_packages(gpu=gpu, exports=exports)


TOO_OLD = """
import sys, torch
for number in (9, 11):
    sys.modules[f"onnxscript._framework_apis.torch_2_{number}"] = None  # as if 0.5 were installed
from jupyter_gpufit.errors import NoRuntime
from jupyter_gpufit.models.export import export
try:
    export(torch.nn.Linear(2, 1), torch.ones(1, 2), sys.argv[1], "m")
except NoRuntime as error:
    print(error)
"""


@pytest.mark.slow(5)
def test_one_too_old_for_the_torch_that_is_here_is_said_with_what_brings_a_newer(tmp_path: Path) -> None:
    """In a process of its own: torch keeps what an earlier export has found."""
    asked = [sys.executable, "-c", TOO_OLD, str(tmp_path / "m.onnx")]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout

    assert re.search(r"a newer onnxscript than [\d.]+, .* install --upgrade onnxscript$", said.strip())
