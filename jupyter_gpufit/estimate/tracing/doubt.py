"""Whether a cell that put nothing on the device in its trial run may use one all the same, as no trial run sees it."""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from ...system.identity import kernel_text
from ..asking.worth import may_start_programs, names_a_gpu
from .read import Reads

_DRIVER = b"libcuda.so"  # in every library that has CUDA of its own, linked or loaded when it is needed
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]+")


def doubt_about(source: str, values: Mapping[str, Any], reads: Reads) -> str:
    """In half a sentence; empty where there is none."""
    if reads.started or may_start_programs(source):
        return "it starts programs"
    if names_a_gpu(source, values):
        return "it names a GPU"
    other = _other_cuda()
    return f"{other} has CUDA of its own" if other else ""


def _other_cuda() -> str:
    """What of this process that torch does not need itself."""
    torchs = {"torch", "functorch", "jupyter_gpufit", *_torch_needs()}
    for name in list(sys.modules):
        top, *parts = name.split(".")
        if top not in torchs and any(part.startswith("cuda") for part in (top, *parts)):
            return name
    for path in _mapped():
        if not torchs.intersection(path.parts) and _names_the_driver(path):
            return path.name
    return ""


def _torch_needs() -> Iterator[str]:
    try:
        for line in requires("torch") or ():
            if found := _DISTRIBUTION.match(line):
                yield found[0].lower()  # the first part of the name: nvidia-cublas-cu12 is in nvidia/
    except PackageNotFoundError:
        return


def _mapped() -> list[Path]:
    """The shared libraries of this process."""
    lines = kernel_text("/proc/self/maps").split("\n")
    return [Path(path) for path in sorted({line[line.index("/") :] for line in lines if "/" in line}) if ".so" in path]


def _names_the_driver(path: Path) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as found:
            return found.find(_DRIVER) >= 0
    except (OSError, ValueError):
        return False
