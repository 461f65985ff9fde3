"""Files written past the page cache, and through it where that is refused: the same bytes, whatever their number."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint import image_file
from jupyter_gpufit.checkpoint.checksum import PIECE
from jupyter_gpufit.checkpoint.files import newest
from jupyter_gpufit.checkpoint.image_file import ImageFile
from jupyter_gpufit.checkpoint.layout import BLOCK, lay_out
from jupyter_gpufit.checkpoint.publish import Publisher
from jupyter_gpufit.checkpoint.request import WriterRequest
from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.checkpoint.windows import in_one
from tests.checkpoint.snapshots import about, assert_is, bytes_of, copied

NAME = "000001-000001"


@pytest.fixture(params=["disk", "tmpfs", "refused"])
def directory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if request.param == "refused":  # as an older tmpfs does, and some network file systems
        monkeypatch.setattr(image_file, "_open_past", lambda path: -1)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if request.param == "tmpfs" else tmp_path) as place:
        yield Path(place)


def _published(directory: Path, *sizes: int, graph: int = 5) -> None:
    """Write blobs of these sizes, and check what can be read of them then."""
    make = random.Random(graph).randbytes
    snapshot = Snapshot(make(graph), tuple(copied(f"w{number}", make(size)) for number, size in enumerate(sizes)))
    layout = lay_out(NAME, snapshot, {}, ())
    memory = memoryview(mmap.mmap(-1, layout.nbytes + 1))
    for image, head in zip(layout.images, layout.heads, strict=True):
        memory[image.start : image.start + image.head] = head
        for number, at in zip(image.blobs, image.at, strict=True):
            start = image.start + at
            memory[start : start + sizes[number]] = bytes_of(snapshot.blobs[number])
    Publisher(directory).publish(WriterRequest.of(NAME, about(), 3, snapshot, layout, ""), in_one(memory))
    with newest(directory).opened or pytest.fail("it is not whole") as opened:
        assert_is(opened, snapshot)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_sizes_around_a_block(directory: Path, size: int) -> None:
    _published(directory, size, graph=size)


@pytest.mark.slow
def test_many_small_tensors_and_blobs_of_several_pieces(directory: Path) -> None:
    _published(directory, 2 * PIECE + 5, *range(300), 2 * BLOCK, 1, graph=3 * BLOCK + 1)


def test_only_the_last_block_goes_through_the_page_cache(tmp_path: Path) -> None:
    file = ImageFile(tmp_path / "file")
    if file.past < 0:
        pytest.skip("NOT ON THIS FILE SYSTEM: it does not let files be written past the page cache")
    file.reserve(100 * BLOCK + 7)
    file.write(memoryview(mmap.mmap(-1, 101 * BLOCK))[: 100 * BLOCK + 7], 0)
    assert file.sync().st_size == 100 * BLOCK + 7
    assert _pages_in_memory(file.fd, 101 * BLOCK) < 10  # some systems keep neighbours of the last one
    file.close()


def test_what_cannot_be_written_past_the_cache_is_written_through_it(tmp_path: Path) -> None:
    """As memory that no block of a disk may be read from; a file system may say so of any write."""
    data = os.urandom(2 * BLOCK + 7)
    memory = memoryview(mmap.mmap(-1, 4 * BLOCK))
    memory[1 : 1 + len(data)] = data
    file = ImageFile(tmp_path / "file")
    file.write(memory[1 : 1 + len(data)], 0)
    file.sync()
    file.forget()
    file.close()
    assert (tmp_path / "file").read_bytes() == data


def _pages_in_memory(fd: int, nbytes: int) -> int:
    libc = ctypes.CDLL(None)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        found = (ctypes.c_ubyte * (nbytes // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), found) == 0
        del start
    return sum(one & 1 for one in found)
