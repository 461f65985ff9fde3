"""Memory of two processes: it grows, and nobody can cut it short."""

from __future__ import annotations

import os

import numpy as np
import pytest

from jupyter_gpufit.calls.protocol import Lying
from jupyter_gpufit.calls.region import SharedRegion, can_shrink
from jupyter_gpufit.units import MiB


def test_what_one_writes_the_other_sees_also_where_it_has_grown() -> None:
    mine = SharedRegion.make(100)
    theirs = SharedRegion(os.dup(mine.fd))
    try:
        mine.array(Lying("float32", (2, 3), 64))[...] = [[1, 2, 3], [4, 5, 6]]
        assert theirs.array(Lying("float32", (2, 3), 64)).tolist() == [[1, 2, 3], [4, 5, 6]]
        kept = mine.array(Lying("float32", (2, 3), 64))
        theirs.array(Lying("int8", (3 * MiB,), 4096))[-1] = 7
        assert mine.array(Lying("int8", (3 * MiB,), 4096))[-1] == 7
        assert kept[1, 2] == 6  # an array of before goes on being one
    finally:
        mine.close()
        theirs.close()


def test_nobody_can_cut_it_short() -> None:
    region = SharedRegion.make(MiB)
    try:
        assert not can_shrink(region.fd)
        with pytest.raises(PermissionError):
            os.ftruncate(region.fd, 1)
    finally:
        region.close()


def test_memory_of_another_making_is_known() -> None:
    fd = os.memfd_create("other")
    try:
        assert can_shrink(fd)
    finally:
        os.close(fd)


def test_no_tensor_at_all_is_one_too() -> None:
    region = SharedRegion.make(0)
    try:
        assert region.array(Lying("float32", (0, 4), 0)).shape == (0, 4)
        assert region.array(Lying("int64", (), 64)) == np.int64(0)
    finally:
        region.close()
