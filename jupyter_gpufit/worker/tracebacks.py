"""The traceback of a cell that was stopped, made quickly: whoever stops a job waits for it.

IPython parses every file that a traceback passes through, to mark in each line what was being called. In the files of
torch that takes longer than all else in a stop, and on a busy machine longer than the stop ladder waits: its next rung
costs the cell its variables. So the cell's own lines are marked as ever, and the files below it are shown as IPython
shows huge ones: their lines and an arrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import TracebackType
from typing import Any

from IPython.core import ultratb


@contextmanager
def quickly(formatter: Any) -> Iterator[None]:
    """Have IPython's formatter parse no file."""
    records, huge = formatter.get_records, ultratb.FAST_THRESHOLD

    def in_stretches(trace: TracebackType, context: int, offset: int) -> list[Any]:
        first, *others = stretches(trace)
        return [*records(first, context, offset), *(one for other in others for one in records(other, context, 0))]

    formatter.get_records = in_stretches
    ultratb.FAST_THRESHOLD = 0  # lines; a cell, which has no file, counts as none
    try:
        yield
    finally:
        formatter.get_records = records
        ultratb.FAST_THRESHOLD = huge


def make_ready() -> None:
    """Do what makes the first traceback of a process slow (0.1 s), in a process that has time now."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        formatter: Any = ultratb.AutoFormattedTB(mode="Context")
        formatter.structured_traceback(KeyboardInterrupt, error, error.__traceback__)


def stretches(trace: TracebackType) -> list[TracebackType]:
    """The traceback, cut between what has a file and what has none: what is below a frame is parsed along with it."""
    links = []
    link: TracebackType | None = trace
    while link is not None:
        links.append(link)
        link = link.tb_next
    return [_chained(list(run)) for _, run in groupby(links, _has_file)]


def _has_file(link: TracebackType) -> bool:
    return os.path.exists(link.tb_frame.f_code.co_filename)


def _chained(links: Sequence[TracebackType]) -> TracebackType:
    following = None
    for link in reversed(links):
        following = TracebackType(following, link.tb_frame, link.tb_lasti, link.tb_lineno)
    assert following is not None
    return following
