"""A rank reads what another one has alone, and is never left waiting."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
import torch

from jupyter_gpufit.errors import PartGone, RanksDisagree
from jupyter_gpufit.worker.ranks import ranks
from jupyter_gpufit.worker.ranks.forking import ForkedRank
from jupyter_gpufit.worker.ranks.links import RankGone, linked
from jupyter_gpufit.worker.ranks.reading import ReadingEnds, reading_ends
from jupyter_gpufit.worker.ranks.replica import wait_for_the_end
from jupyter_gpufit.worker.ranks.shared import SharedGroup, region


@contextmanager
def two(patience: float) -> Iterator[tuple[ReadingEnds, ReadingEnds]]:
    mine, theirs = reading_ends(2, patience)
    yield mine, theirs
    mine.close()
    for thread in threading.enumerate():
        if thread.name == "gpufit-rank-read":
            thread.join()
    theirs.close()


def test_what_fails_where_it_lies_is_told_and_the_next_is_answered() -> None:
    out = torch.empty(3)
    with two(20.0) as (mine, theirs):
        theirs.offer(lambda number, name: {0: torch.arange(3.0)}[number])
        with pytest.raises(PartGone, match="device 2 of the job"):
            mine.read(1, 5, "sum", out)
        mine.read(1, 0, "sum", out)
    assert out.tolist() == [0.0, 1.0, 2.0]


def test_one_that_does_not_answer_is_waited_for_so_long() -> None:
    with two(0.01) as (mine, _), pytest.raises(PartGone):
        mine.read(1, 0, "sum", torch.empty(3))


@contextmanager
def beside(leave: Any = lambda: None) -> Iterator[tuple[ranks.Ranks, ranks.RankOfMany, ranks.RankOfMany]]:
    """The others as the first rank of two has them, and what both have around their cells."""
    links, reading, words = linked(2), reading_ends(2), os.memfd_create("words")
    memory = region(2)
    mine, theirs = (
        ranks.RankOfMany(links[at], reading[at], SharedGroup(links[at], memory, ranks._wait), split=1, words=words)
        for at in range(2)
    )
    mine.leave = leave
    others = ranks.Ranks(cast(Any, None), cast(Any, None), lambda lost: None)
    others._mine, others._words[1] = mine, words
    yield others, mine, theirs
    others.end()
    mine.close()
    theirs.close()
    os.close(words)


def forked(does: Callable[[], object]) -> ForkedRank:
    if not (pid := os.fork()):
        with suppress(BaseException):
            os.setpgid(0, 0)
            does()
        os._exit(1)
    return ForkedRank.of(pid)


@pytest.mark.slow(1)
def test_one_that_ended_its_cell_says_so_while_it_stays() -> None:
    with beside() as (others, mine, theirs):

        def rank() -> None:
            mine.close()
            theirs.stays(None)

        others._forked[1] = forked(rank)
        theirs.links.close()
        with pytest.raises(RankGone) as gone:
            mine.links.hear([1], 20.0)
        lost = others._judge(gone.value, "cpu:1")
    assert isinstance(lost, RanksDisagree) and "to the end of its cell" in str(lost)


def test_an_interrupt_ends_the_others_whatever_fails_meanwhile() -> None:
    def leave() -> None:
        raise torch.OutOfMemoryError

    with beside(leave) as (others, mine, _):
        others._forked[1] = forked(wait_for_the_end)
        with pytest.raises(torch.OutOfMemoryError):
            others.be_alone()
        assert mine.group.size == 1 and not others._forked
