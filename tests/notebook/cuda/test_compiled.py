"""A library's own compiled code that is given a tensor of the stand-in fails, and the user is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow

KERNELS = """
import ctypes
import torch
run = ctypes.CDLL(None).strnlen
run.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def propagate(x):
    if x.is_cuda:
        return run(torch.cuda.current_stream(), 0)  # as its kernels for a GPU take it
    return run(x.data_ptr(), 0)
def checked(x):
    raise RuntimeError("x must be a CUDA tensor")
def mixed(x):
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two, cuda:0 and cpu!")
def own(x):
    raise ValueError("no such wave")
"""


@pytest.fixture(scope="module", autouse=True)
def waves(home: Path, kernel: Kernel) -> None:
    (home / "site-packages").mkdir()
    (home / "site-packages" / "waves.py").write_text(KERNELS)
    kernel.check(f"import sys; sys.path.insert(0, {str(home / 'site-packages')!r})\nimport torch, waves")
    kernel.check("x = torch.ones(2, device='cuda'); x = x + 0")


@pytest.mark.parametrize(
    ("call", "explained"), [("propagate", True), ("checked", True), ("mixed", False), ("own", False)]
)
def test_it_is_said_that_cuda_is_a_stand_in(call: str, explained: bool, kernel: Kernel) -> None:
    ran = kernel.run(f"waves.{call}(x)")

    assert ran.ename and not ran.ok
    assert ("what waves has compiled for a GPU cannot compute on them" in ran.shown) == explained
    assert kernel.check("waves.propagate(x.cpu())").shown == ""
