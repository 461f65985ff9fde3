"""Forked processes that are ranks of nothing but a test."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import torch

from jupyter_gpufit.worker.ranks.links import Links, RankGone, linked
from jupyter_gpufit.worker.ranks.reading import reading_ends
from jupyter_gpufit.worker.ranks.shared import RankDiffers, SharedGroup, region
from tests.kernels import TIMEOUT

Does = Callable[[SharedGroup], Any]


def lost(why: RankGone | RankDiffers) -> NoReturn:
    raise why


def crew(size: int, does: Does, patience: float | None = TIMEOUT) -> list[Any]:
    """What each rank comes to, an exception being one result among others."""
    links, memory, reading = linked(size), region(size), reading_ends(size)
    pipes = [os.pipe() for _ in range(size)]
    pids = []
    for rank in range(size):
        if not (pid := os.fork()):
            with suppress(BaseException):
                for others in reading[:rank] + reading[rank + 1 :]:
                    others.close()
                group = SharedGroup(links[rank], memory, lost, patience, reading=reading[rank])
                _be(rank, links, group, does, pipes)
            os._exit(1)
        pids.append(pid)
    for one in links:
        one.close()
    for ends in reading:
        ends.close()
    found = []
    for (end, writing), pid in zip(pipes, pids, strict=True):
        os.close(writing)
        with os.fdopen(end, "rb") as told:
            body = told.read()
        os.waitpid(pid, 0)
        found.append(pickle.loads(body) if body else None)
    return found


def _be(rank: int, links: list[Links], group: SharedGroup, does: Does, pipes: list[tuple[int, int]]) -> None:
    torch.set_num_threads(1)
    for number, theirs in enumerate(links):
        if number != rank:
            theirs.close()
    for number, (_, writing) in enumerate(pipes):
        if number != rank:
            os.close(writing)
    try:
        found = does(group)
    except (RankGone, RankDiffers) as error:
        found = error
    except BaseException:
        found = traceback.format_exc()
    with os.fdopen(pipes[rank][1], "wb") as told:
        told.write(pickle.dumps(found))
    os._exit(0)
