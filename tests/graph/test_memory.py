"""Memory of several files is one run of bytes."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from jupyter_gpufit.graph.memory import PAGE, GraphMemory, Piece, copy_differences, part_from_parent, settle
from jupyter_gpufit.units import MiB


@pytest.fixture
def parts() -> GraphMemory:
    """Three files of one, two and one page."""
    fds = [os.memfd_create("test") for _ in range(3)]
    for fd, pages in zip(fds, (1, 2, 1), strict=True):
        os.ftruncate(fd, pages * PAGE)
    return GraphMemory(fds)


def test_what_is_written_across_files_is_read_and_mapped_as_one(parts: GraphMemory) -> None:
    data = os.urandom(3 * PAGE)
    source = ctypes.create_string_buffer(data, len(data))

    parts.write([Piece(ctypes.addressof(source), len(data), 100)])

    assert parts.read(100, len(data)) == data
    mapped = parts.map(100, len(data))
    assert bytes(mapped) == data
    mapped[PAGE] = b"!"
    assert parts.read(100 + PAGE, 1) == b"!"


def test_a_private_mapping_changes_nobody_else(parts: GraphMemory) -> None:
    mapped = parts.map(0, parts.size, private=True)
    mapped[0] = b"x"

    assert parts.read(0, 1) == b"\0"


def test_saved_and_opened_it_is_the_same(parts: GraphMemory, tmp_path: Path) -> None:
    source = ctypes.create_string_buffer(b"abc", 3)
    parts.write([Piece(ctypes.addressof(source), 3, PAGE - 1)])
    parts.save(tmp_path / "memory")

    saved = GraphMemory.open(tmp_path / "memory")

    assert saved.size == parts.size and saved.read(PAGE - 1, 3) == b"abc"
    assert bytes(saved.map(PAGE - 1, 3, private=True)) == b"abc"


def test_large_memory_is_in_several_files_and_small_in_one() -> None:
    assert len(GraphMemory.create(100).fds) == 1
    large = GraphMemory.create(1 << 30)  # nothing is written, so nothing is used
    assert large.size == 1 << 30 and len(large.fds) == min(4, os.cpu_count() or 1)


def test_files_are_closed_with_the_memory() -> None:
    memory = GraphMemory.create(10)
    (fd,) = memory.fds
    del memory

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_copies_only_the_parts_that_differ() -> None:
    source = ctypes.create_string_buffer(40 * MiB)
    target = ctypes.create_string_buffer(40 * MiB)
    source[35 * MiB] = b"x"

    written = copy_differences(ctypes.addressof(target), ctypes.addressof(source), 40 * MiB)

    assert written == MiB and target[35 * MiB] == b"x"
    assert copy_differences(ctypes.addressof(target), ctypes.addressof(source), 40 * MiB) == 0


def test_what_is_written_after_a_fork_is_not_seen_in_the_other_process_and_is_there_for_readers(
    parts: GraphMemory,
) -> None:
    """Where neither has touched a page yet, too: so ordinary memory is."""
    mapped = parts.map(0, parts.size)
    mapped[0] = b"a"
    written = os.pipe()
    if not (pid := os.fork()):
        try:
            os.read(written[0], 1)
            assert bytes(mapped[:1]) == b"a" and bytes(mapped[PAGE : PAGE + 1]) == b"\0"
            mapped[2 * PAGE] = b"x"
            os._exit(0)
        finally:
            os._exit(1)
    mapped[0], mapped[PAGE], mapped[parts.size - 1] = b"b", b"c", b"z"
    os.write(written[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    settle()

    assert [bytes(parts.read(at * PAGE, 1)) for at in range(3)] == [b"b", b"c", b"\0"]
    assert parts.read(parts.size - 1, 1) == b"z" and parts.read(3 * PAGE, 1) == b"\0"
    mapped[3 * PAGE] = b"d"
    assert parts.read(3 * PAGE, 1) == b"d", "it is shared again"
    for end in written:
        os.close(end)


def test_a_forked_process_that_goes_on_by_itself_has_bytes_of_its_own(parts: GraphMemory) -> None:
    mapped = parts.map(0, parts.size)
    mapped[0], mapped[PAGE] = b"a", b"b"
    parted, changed = os.pipe(), os.pipe()
    if not (pid := os.fork()):
        try:
            part_from_parent(parts)
            os.write(parted[1], b"!")
            os.read(changed[0], 1)
            assert bytes(mapped[:1]) == b"a"
            assert parts.read(PAGE, 1) == b"b"  # which nobody here had read before
            mapped[0] = b"x"
            assert parts.read(0, 1) == b"x"  # for what this process forks or gives back
            os._exit(0)
        finally:
            os._exit(1)
    os.read(parted[0], 1)
    mapped[0], mapped[PAGE] = b"c", b"d"
    os.write(changed[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert bytes(mapped[:1]) == b"c"
    for end in (*parted, *changed):
        os.close(end)
