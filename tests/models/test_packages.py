"""What is missing is said with the command that brings it, and two that collide with the one that parts them."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from jupyter_gpufit.errors import NoRuntime
from jupyter_gpufit.models import packages
from jupyter_gpufit.models.export import export


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


def test_one_too_old_for_the_torch_that_is_here_is_said_with_what_brings_a_newer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript._framework_apis.torch_2_11", None)  # as if 0.5 were installed
    monkeypatch.setitem(sys.modules, "onnxscript._framework_apis.torch_2_9", None)
    with pytest.raises(NoRuntime, match=r"a newer onnxscript than [\d.]+, .* install --upgrade onnxscript$"):
        export(torch.nn.Linear(2, 1), torch.ones(1, 2), tmp_path / "m.onnx", "m")
