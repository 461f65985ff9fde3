"""Where each blob goes: into which file of the checkpoint, and where in it. Pure."""

from __future__ import annotations

import json
import mmap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .checksum import Section
from .manifest import GRAPH, STATE, Manifest, StoredBlob, kept_file
from .values import DTYPES, Blob, Snapshot

ALIGN = 64  # bytes; where the tensors of a file begin, so that their copies start on a cache line
BLOCK = mmap.PAGESIZE  # bytes; where files begin in the buffer, so that they can be written past the page cache


@dataclass(frozen=True)
class Image:
    """A file as it will be, made in the buffer from which it is written."""

    file: str
    start: int  # in the buffer
    nbytes: int
    head: int  # bytes
    blobs: tuple[int, ...]  # places in the snapshot, in the file's order
    at: tuple[int, ...]  # of each of these, from the file's begin

    def sections(self, sizes: Sequence[int]) -> list[Section]:
        """The parts with checksums: the head, then every blob."""
        placed = zip(self.blobs, self.at, strict=True)
        return [Section(0, self.head), *(Section(at, sizes[blob]) for blob, at in placed)]


@dataclass(frozen=True)
class Layout:
    images: tuple[Image, ...]
    heads: tuple[bytes, ...]  # of each image
    linked: Mapping[int, StoredBlob]  # blobs that an earlier checkpoint has written, by their place in the snapshot
    nbytes: int  # of the buffer


def lay_out(name: str, snapshot: Snapshot, linked: Mapping[int, StoredBlob], stable: Iterable[int]) -> Layout:
    """Lay out the checkpoint `name`. `stable`: blobs that go into a file of their own, to be linked by later ones."""
    stable = frozenset(stable)
    files: dict[str, list[int]] = {STATE: []}
    for number in range(len(snapshot.blobs)):
        if number not in linked:
            files.setdefault(kept_file(name) if number in stable else STATE, []).append(number)
    images = [Image(GRAPH, 0, len(snapshot.graph), len(snapshot.graph), (), ())]
    heads = [snapshot.graph]
    for file, numbers in files.items():
        image, head = _image(file, _aligned(images[-1].start + images[-1].nbytes, BLOCK), snapshot.blobs, numbers)
        images.append(image)
        heads.append(head)
    return Layout(tuple(images), tuple(heads), linked, images[-1].start + images[-1].nbytes)


def _image(file: str, start: int, blobs: Sequence[Blob], numbers: list[int]) -> tuple[Image, bytes]:
    # As safetensors does: the widest types first, so that every tensor lies where its type may.
    numbers = sorted(numbers, key=lambda number: -DTYPES[blobs[number].dtype])
    header, offsets, end = {}, [], 0
    for number in numbers:
        blob = blobs[number]
        offsets.append(end)
        span = [end, end + blob.nbytes]
        header[blob.name] = {"dtype": blob.dtype, "shape": blob.shape, "data_offsets": span}
        end += blob.nbytes
    assert len(header) == len(numbers) and "__metadata__" not in header, "names of blobs are unique"
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.ljust(_aligned(8 + len(text)) - 8)  # spaces after the JSON are allowed
    head = len(text).to_bytes(8, "little") + text
    at = tuple(len(head) + offset for offset in offsets)
    return Image(file, start, len(head) + end, len(head), tuple(numbers), at), head


def _aligned(size: int, to: int = ALIGN) -> int:
    return -(-size // to) * to


def unchanged(
    blobs: Sequence[Blob], before: Manifest | None, sum_of: Callable[[Sequence[int]], Mapping[int, str]]
) -> tuple[dict[int, StoredBlob], set[int]]:
    """Which blobs the checkpoint `before` has written for good, and which are to be written so that later ones have.

    `sum_of` gives checksums of blobs as they are now; it is asked only where the answer can matter.
    """
    seldom = [number for number, blob in enumerate(blobs) if blob.changes == "seldom" and blob.address is not None]
    if before is None:
        return {}, set(seldom)
    kept = {(blob.nbytes, blob.checksum): blob for blob in before.blobs if blob.file not in (STATE, GRAPH)}
    sizes = {nbytes for nbytes, _ in kept}
    asked = [n for n in seldom if blobs[n].name in before.by_name or blobs[n].nbytes in sizes]
    sums = sum_of(asked)
    linked: dict[int, StoredBlob] = {}
    stable = set(seldom)
    for number in asked:
        blob = blobs[number]
        then = before.by_name.get(blob.name)
        # The bytes decide, not the name: storages are numbered, and one more shifts the numbers.
        same = kept.get((blob.nbytes, sums[number]))
        if same is not None and (same.dtype, same.shape) == (blob.dtype, blob.shape):
            linked[number] = replace(same, name=blob.name)
        elif then is not None and then.checksum != sums[number]:
            stable.discard(number)  # it was said to change seldom, and has changed
    linked = _worth_linking(linked, before)
    return linked, stable - linked.keys()


def _worth_linking(linked: dict[int, StoredBlob], before: Manifest) -> dict[int, StoredBlob]:
    """Without those in files of which less than half is still used: the rest would fill the disk for nothing."""
    used: dict[str, int] = defaultdict(int)
    for place in set(linked.values()):
        used[place.file] += place.nbytes
    live = {file for file, nbytes in used.items() if 2 * nbytes >= before.files[file].nbytes - before.files[file].head}
    return {number: place for number, place in linked.items() if place.file in live}
