"""What is installed for models: onnx to take them, ONNX Runtime to run them; and what to do where it is not."""

from __future__ import annotations

import sys
from importlib import metadata, util

from ..errors import NoRuntime

CPU, GPU = "onnxruntime", "onnxruntime-gpu"
PIP = f"{sys.executable} -m pip"


def check_packages(*, gpu: bool = False, exports: bool = False) -> None:
    """Raise NoRuntime, with the command that mends it, where something is missing or in another's way.

    Both packages of ONNX Runtime write into one folder: pip lets them, the later one wins, and to remove either leaves
    the other one broken.
    """
    both = [name for name in (CPU, GPU) if _installed(name)]
    extra = "onnx-gpu" if gpu else "onnx"
    if len(both) == 2:
        keep = GPU if gpu else CPU
        raise NoRuntime(
            f"{CPU} and {GPU} are both installed, into the same folder, so that neither can be relied on. Keep one:"
            f" {PIP} uninstall -y {CPU} {GPU} && {PIP} install {keep}"
        )
    if not both or util.find_spec("onnxruntime") is None:
        raise NoRuntime(f"A model runs under ONNX Runtime, which is not installed: {_install(extra)}")
    if gpu and both == [CPU]:
        raise NoRuntime(
            f"The ONNX Runtime that is installed ({CPU}) runs on CPUs only. For a GPU:"
            f" {PIP} uninstall -y {CPU} && {_install(extra)}"
        )
    for package in ("onnx", "onnxscript") if exports else ("onnx",):
        if util.find_spec(package) is None:
            does = "A module becomes a model" if package == "onnxscript" else "A model is read"
            raise NoRuntime(f"{does} with the package {package}, which is not installed: {_install(extra)}")


def too_old(package: str) -> NoRuntime:
    """What the torch that is here asks of a package is not in it."""
    return NoRuntime(
        f"torch {metadata.version('torch')} exports with a newer {package} than {metadata.version(package)}, the"
        f" installed one: {PIP} install --upgrade {package}"
    )


def _install(extra: str) -> str:
    return f"{PIP} install 'jupyter_gpufit[{extra}]'"


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
