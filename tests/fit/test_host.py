"""What a plan takes of the host's memory is there, and nobody else's, before the cell begins."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from jupyter_gpufit.errors import HostIsFull
from jupyter_gpufit.fit.rungs.host import PAGE, HostMemory
from jupyter_gpufit.units import MiB


def shared_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[2]) * PAGE


def test_what_was_foreseen_is_taken_at_once_and_no_byte_more_while_it_lasts() -> None:
    began = shared_bytes()
    host = HostMemory(32 * MiB, spare=lambda: 64 * MiB)
    held = shared_bytes() - began
    copies = [host.take(8 * MiB, real=True) for _ in range(4)]
    for copy in copies:
        copy.whole.fill_(1)

    assert 32 * MiB <= held < 34 * MiB
    assert shared_bytes() - began < 34 * MiB and host.taken == 32 * MiB
    host.give(copies.pop())
    assert host.take(8 * MiB, real=True).size == 8 * MiB and host.taken == 32 * MiB, "freed memory is used again"


@pytest.mark.slow(5)
def test_a_second_job_that_finds_too_little_is_refused_with_the_figures() -> None:
    left = 100 * MiB
    first = HostMemory(80 * MiB, spare=lambda: left)
    left -= first.reserved

    with pytest.raises(HostIsFull, match="80.0 MiB more .* 20.0 MiB to spare"):
        HostMemory(80 * MiB, spare=lambda: left)


def test_what_was_not_foreseen_is_taken_only_where_the_host_has_it() -> None:
    host = HostMemory(spare=lambda: 3 * MiB)
    host.take(2 * MiB, real=True)

    with pytest.raises(HostIsFull):
        host.take(4 * MiB, real=True)
    assert host.take(1 << 40, real=False).size == 1 << 40, "a trial run only counts"
    assert torch.equal(host.take(PAGE, real=True).whole, torch.zeros(PAGE, dtype=torch.uint8))
