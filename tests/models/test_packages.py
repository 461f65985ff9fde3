"""What is missing is said with the command that brings it, and two that collide with the one that parts them."""

from __future__ import annotations

from collections.abc import Collection
from importlib import util
from importlib.machinery import ModuleSpec

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
