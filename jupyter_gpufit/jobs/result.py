"""A job's variables on their way back: by descriptor to whoever waits for them, else by way of the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

from ..graph import GraphMemory, Reply
from ..system.files import for_its_owner, sync, sync_directory
from ..system.trust import check_trusted
from .paths import JobPaths


def descriptors(reply: Reply) -> tuple[list[int], list[int]]:
    """The reply as open files, and how many of them are its graph, its memory, and the input's memory."""
    assert reply.input_memory is not None
    graph = os.memfd_create("gpufit", os.MFD_CLOEXEC)
    rest = memoryview(reply.graph)
    while rest:
        rest = rest[os.write(graph, rest) :]
    return [graph, *reply.memory.fds, *reply.input_memory.fds], [1, len(reply.memory.fds), len(reply.input_memory.fds)]


def from_descriptors(
    found: Sequence[int], counts: Sequence[int], paths: JobPaths, *, has_objects: bool
) -> tuple[Reply, GraphMemory]:
    """The reply behind the descriptors, which belong to it from here on, and the input's memory.

    A kernel that has the job's objects puts the input's bytes into them; another one opens the input beside the reply.
    """
    graph, memory = found[0], GraphMemory(found[1 : 1 + counts[1]])
    input_memory = GraphMemory(found[1 + counts[1] :])
    with open(graph, "rb") as file:
        file.seek(0)
        read = file.read()
    if has_objects:
        return Reply(read, memory), input_memory
    check_trusted(paths.graph)
    return Reply(read, memory, paths.graph.read_bytes(), input_memory), input_memory


def owe(paths: JobPaths) -> None:
    """Note that a job is done and nobody has its variables yet; where the disk cannot, it counts as if somebody had."""
    with suppress(OSError):
        os.close(for_its_owner(str(paths.owed), os.O_WRONLY | os.O_CREAT))


def given(paths: JobPaths) -> None:
    """They are with somebody who keeps them. It takes no room on a full disk."""
    with suppress(OSError):
        paths.owed.unlink(missing_ok=True)


def save(reply: Reply, paths: JobPaths) -> None:
    """Put the reply on the disk, visible when it is whole, and there after a power cut."""
    aside = paths.result.with_suffix(".tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    try:
        reply.save(aside)
        for file in aside.iterdir():
            file.chmod(0o600)  # and its directory is 0700 from the first moment
        sync(map(str, aside.iterdir()))
        shutil.rmtree(paths.result, ignore_errors=True)  # of an end before the job was resumed
        os.rename(aside, paths.result)
        sync_directory(paths.root)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def load(paths: JobPaths) -> Reply | None:
    """The reply on the disk, if there is one and nobody else could have written it."""
    if not paths.result.exists():
        return None
    for file in paths.result.iterdir():
        check_trusted(file)
    return Reply.open(paths.result)
