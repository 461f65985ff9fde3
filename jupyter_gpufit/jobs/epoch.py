"""The numbers of a job's starts: an older worker can neither publish nor speak once a later one has begun."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..system.files import alone, read_small, write_durably
from .paths import JobPaths


def next_epoch(paths: JobPaths) -> int:
    """Number this start of a worker; only the holder of the job's lock may call it."""
    with ExitStack() as stack:
        if paths.checkpoints.is_dir():  # an older worker is about to publish, or will find that it no longer may
            stack.enter_context(publishing(paths.checkpoints))
        epoch = current_epoch(paths) + 1
        write_durably(paths.epoch, str(epoch))
    return epoch


def current_epoch(paths: JobPaths) -> int:
    """The number of the latest start. A worker that finds a later one than its own has nothing more to say."""
    try:
        return int(read_small(paths.epoch))
    except (FileNotFoundError, ValueError):  # not started yet; or a power cut took it, and left an empty file
        return latest_epoch(paths.checkpoints)


@contextmanager
def publishing(directory: Path) -> Iterator[None]:
    """Hold what orders publishing against a change of the job's epoch: both check and act under this lock."""
    with alone(JobPaths(directory.parent).publish_lock):
        yield


_NAME = re.compile(r"\d{6,}-\d{6,}")  # six digits or more, so that names sort as numbers up to a million


def name_of(epoch: int, number: int) -> str:
    """Of a checkpoint: names sort in the order of writing, and a later worker's come after an earlier one's."""
    return f"{epoch:06}-{number:06}"


def is_name(name: str) -> bool:
    """Whether it is a checkpoint's; those of directories that are being written or removed are not."""
    return _NAME.fullmatch(name) is not None


def order_of(name: str) -> tuple[int, int]:
    """The epoch and number in a checkpoint's name."""
    epoch, number = name.split("-")
    return int(epoch), int(number)


def names(directory: Path) -> list[str]:
    """Of the checkpoints there, newest first, whole or broken."""
    return sorted((name for name in os.listdir(directory) if is_name(name)), key=order_of, reverse=True)


def latest_epoch(directory: Path) -> int:
    """Of the workers that left a checkpoint there; 0 if none did."""
    try:
        return max((order_of(name)[0] for name in names(directory)), default=0)
    except FileNotFoundError:
        return 0
