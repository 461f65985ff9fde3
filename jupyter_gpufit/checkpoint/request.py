"""What the training asks of the process that writes, and what that answers: one line of JSON each; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .layout import Image, Layout
from .manifest import About, StoredBlob
from .values import Snapshot


@dataclass(frozen=True)
class WriterRequest:
    """One checkpoint whose bytes lie in the buffer."""

    name: str
    about: About
    keep: int  # how many checkpoints stay
    images: tuple[Image, ...]
    blobs: tuple[StoredBlob, ...]  # with a checksum where they are linked, and none yet where they are written
    linked: Mapping[str, str]  # file: the checkpoint that has it
    files: tuple[str, ...] = ()  # the user's own that the training writes to

    @classmethod
    def of(cls, name: str, about: About, keep: int, snapshot: Snapshot, layout: Layout, before: str) -> WriterRequest:
        placed = {
            number: (image.file, at)
            for image in layout.images
            for number, at in zip(image.blobs, image.at, strict=True)
        }
        blobs = []
        for number, blob in enumerate(snapshot.blobs):
            if number in layout.linked:
                blobs.append(layout.linked[number])
            else:
                file, at = placed[number]
                blobs.append(StoredBlob(blob.name, blob.dtype, tuple(blob.shape), blob.nbytes, file, at, ""))
        linked = {blob.file: before for blob in layout.linked.values()}
        return cls(name, about, keep, layout.images, tuple(blobs), linked, snapshot.files)

    @property
    def needed(self) -> int:
        """Bytes on the disk."""
        return sum(image.nbytes for image in self.images)

    def encode(self) -> bytes:
        record = vars(self) | {
            "about": asdict(self.about),
            "images": [vars(image) for image in self.images],
            "blobs": [list(vars(blob).values()) for blob in self.blobs],
        }
        return json.dumps(record).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> WriterRequest:
        record: dict[str, Any] = json.loads(line)
        images = [
            Image(**image | {"blobs": tuple(image["blobs"]), "at": tuple(image["at"])}) for image in record["images"]
        ]
        blobs = [StoredBlob(name, dtype, tuple(shape), *rest) for name, dtype, shape, *rest in record["blobs"]]
        lists = {"images": tuple(images), "blobs": tuple(blobs), "files": tuple(record["files"])}
        return cls(**record | lists | {"about": About(**record["about"])})


@dataclass(frozen=True)
class WriterAnswer:
    """How it went."""

    failed: str = ""  # why, as the system puts it; empty: it is durable
    errno: int = 0
    file: str = ""  # about which
    needed: int = 0  # bytes
    free: int = 0  # bytes on that file system
    current: int = 0  # the job's epoch, when it is not the writer's any more
    unlinked: bool = False  # what an earlier checkpoint had written is not there any more as it was

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> WriterAnswer:
        return cls(**json.loads(line))


def sizes(blobs: Sequence[StoredBlob]) -> list[int]:
    return [blob.nbytes for blob in blobs]
