"""Convolutions of float16 on a slot."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from jupyter_gpufit.cuda.slot import Budget, half

KINDS: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d": (F.conv1d, (4, 8, 32), (8, 8, 3)),
    "conv2d": (F.conv2d, (4, 8, 12, 12), (8, 8, 3, 3)),
    "conv3d": (F.conv3d, (2, 4, 6, 6, 6), (4, 4, 3, 3, 3)),
    "conv_transpose1d": (F.conv_transpose1d, (4, 8, 32), (8, 4, 3)),
    "conv_transpose2d": (F.conv_transpose2d, (4, 8, 12, 12), (8, 4, 3, 3)),
    "conv_transpose3d": (F.conv_transpose3d, (2, 4, 6, 6, 6), (4, 2, 3, 3, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [False, True])
def test_they_are_those_of_float32_rounded(slot: Budget, kind: str, bias: bool) -> None:
    convolve, *sizes = KINDS[kind]
    sizes.append((sizes[1]["transpose" in kind],))
    given = [torch.randn(size).half().cuda().requires_grad_() for size in sizes[: 3 if bias else 2]]
    exact = [one.detach().float().requires_grad_() for one in given]

    made, expected = convolve(*given), convolve(*exact)
    above = torch.randn_like(made)
    made.backward(above)
    expected.backward(above.float())

    assert made.dtype == torch.float16 and made.device.type == "cuda"
    assert torch.equal(made, expected.half())
    for one, other in zip(given, exact, strict=True):
        assert one.grad is not None and other.grad is not None and torch.equal(one.grad, other.grad.half())


def test_a_step_under_autocast_takes_no_longer_than_some_of_float32(slot: Budget) -> None:
    net = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.ConvTranspose2d(32, 16, 3)).cuda()
    x = torch.randn(8, 16, 32, 32, device="cuda")

    def step(enabled: bool) -> None:
        with torch.autocast("cuda", enabled=enabled):
            loss = net(x).square().mean()
        loss.backward()

    assert quickest(lambda: step(True)) < 8 * quickest(lambda: step(False))  # torch's own: 40 times


def quickest(work: Callable[[], None]) -> float:
    took = []
    for _ in range(5):
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return min(took)


def test_what_is_float32_has_the_bits_that_it_had(slot: Budget) -> None:
    x, weight = torch.randn(4, 8, 12, 12), torch.randn(8, 8, 3, 3, requires_grad=True)
    convolve, backward = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
    how = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    above = torch.randn(4, 8, 10, 10)
    here = [F.conv2d(x, weight), *backward(above, x, weight, [0], *how, [True, True, False])]
    half.quicken()
    again = [F.conv2d(x, weight), *backward(above, x, weight, [0], *how, [True, True, False])]
    there = convolve.redispatch(half._AS_EVER, x, weight, None, *how)

    assert torch.equal(here[0], there)
    assert all(one is other is None or torch.equal(one, other) for one, other in zip(here, again, strict=True))


@pytest.mark.slow(8)
@pytest.mark.parametrize(
    ("cell", "quick"),
    [
        ("with torch.autocast('cpu', torch.float16): F.conv2d(x, w)", False),
        ("with torch.autocast('cuda', torch.bfloat16): F.conv2d(x.cuda(), w.cuda())", False),
        ("with torch.autocast('cuda', enabled=False): F.conv2d(x.cuda(), w.cuda())", False),
        ("F.conv2d(x.half(), w.half())", False),
        ("with torch.autocast('cuda'): F.conv2d(x.cuda(), w.cuda())", True),
        ("torch.nn.Conv2d(3, 4, 3).cuda().half()(x.cuda().half())", True),
    ],
)
def test_who_computes_none_on_the_slot_has_the_cpus_own(cell: str, quick: bool) -> None:
    code = (
        "import torch, torch.nn.functional as F\n"
        "from jupyter_gpufit.cuda.slot import as_slot, half\n"
        "x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)\n"
        "with as_slot('cpu:0', 1 << 30):\n"
        f"    {cell.split(': ')[0] + ':' if cell.startswith('with') else 'if True:'}\n"
        f"        {cell.split(': ', 1)[1] if cell.startswith('with') else cell}\n"
        "print(half.quicken.cache_info().currsize)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "could not create a primitive" in ran.stderr:  # torch's own, on a CPU that has no float16
        assert not quick
        return
    assert ran.stdout.split() == [str(int(quick))], ran.stderr
