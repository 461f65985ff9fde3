"""What a checkpoint says of itself: `manifest.json`, pure. README, "Files of a checkpoint", has the format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from .checksum import checksum
from .values import DTYPES

FORMAT = 1  # readers ignore unknown keys and refuse a higher format
MANIFEST, GRAPH, STATE = "manifest.json", "graph.pkl", "state.safetensors"
_FILE = re.compile(r"graph\.pkl|state\.safetensors|kept-\d{6,}-\d{6,}\.safetensors")


def kept_file(name: str) -> str:
    """The file in which the checkpoint of that name writes data that training hardly changes."""
    return f"kept-{name}.safetensors"


class Malformed(ValueError):
    """Not a manifest of ours; its text says why."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Where the training stood, and what it ran with."""

    step: int
    epoch: int  # the number of the worker that wrote it
    time: float  # seconds since 1970
    where: str  # "line 12 of the cell, in train()"
    device: str
    automatic: bool = False  # nobody waits for it: it is written with low priority
    python: str = ""
    torch: str = ""
    transformer: str = ""  # version of the rewriting of cells: another one cannot find the place again
    exact: bool = True  # goes on to the bit; else by a library's own resume
    hashseed: str = ""  # PYTHONHASHSEED
    peak: int = 0  # bytes that the training had taken of its device at the most; 0: not known
    versions: Mapping[str, str] = field(default_factory=dict)  # of libraries, and hashes of their loops' sources


@dataclass(frozen=True)
class StoredFile:
    nbytes: int
    head: int  # bytes that belong to no blob: the header, or all of the graph
    checksum: str  # of the head


@dataclass(frozen=True)
class StoredBlob:
    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    file: str
    at: int  # from the file's begin
    checksum: str


@dataclass(frozen=True)
class Manifest:
    name: str  # of the checkpoint's directory, so that two of them cannot be swapped
    about: About
    files: Mapping[str, StoredFile]
    blobs: tuple[StoredBlob, ...]  # in the order of the snapshot's

    @property
    def nbytes(self) -> int:
        """Of all its files, those it shares with other checkpoints included."""
        return sum(file.nbytes for file in self.files.values())

    @cached_property
    def by_name(self) -> Mapping[str, StoredBlob]:
        return {blob.name: blob for blob in self.blobs}

    def to_json(self) -> str:
        body = {
            "name": self.name,
            "about": asdict(self.about),
            "files": {name: asdict(file) for name, file in self.files.items()},
            "blobs": [vars(blob) for blob in self.blobs],  # asdict would copy each shape, and there may be many
        }
        text = _canonical(body)
        return f'{{"format": {FORMAT}, "checksum": "{checksum(text.encode())}", "body": {text}}}\n'

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Read and check it; what it says of its files is in bounds, and names no file outside its directory."""
        try:
            record = json.loads(text)
            if record["format"] > FORMAT:
                raise Malformed(f"it has format {record['format']}, written by a later version.")
            body = record["body"]
            if checksum(_canonical(body).encode()) != record["checksum"]:
                raise Malformed("its manifest was changed after it was written.")
            manifest = cls(
                name=body["name"],
                about=About(**_known(About, body["about"])),
                files={name: StoredFile(**_known(StoredFile, file)) for name, file in body["files"].items()},
                blobs=tuple(_blob(blob) for blob in body["blobs"]),
            )
            _check(manifest)
        except Malformed:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Malformed(f"its manifest cannot be read ({type(error).__name__}: {error}).") from error
        return manifest


def _blob(record: dict[str, Any]) -> StoredBlob:
    known = _known(StoredBlob, record)
    return StoredBlob(**known | {"shape": tuple(known["shape"])})


def _known(cls: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in cls.__dataclass_fields__ if name in record}


def _canonical(body: Any) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _check(manifest: Manifest) -> None:
    """Whoever made the manifest may mean harm: the checksum in it is no signature."""
    if GRAPH not in manifest.files:
        raise Malformed("its manifest names no graph.")
    numbers = [number for file in manifest.files.values() for number in (file.nbytes, file.head)]
    numbers += [number for blob in manifest.blobs for number in (blob.nbytes, blob.at, *blob.shape)]
    if any(type(number) is not int for number in numbers):
        raise Malformed("its manifest has a size that is no number.")
    for name, file in manifest.files.items():
        if not _FILE.fullmatch(name):
            raise Malformed(f"its manifest names {name!r}, which is no file of a checkpoint.")
        if not 0 <= file.head <= file.nbytes:
            raise Malformed(f"its manifest gives {name} an impossible size.")
    if manifest.files[GRAPH].head != manifest.files[GRAPH].nbytes:
        raise Malformed("its manifest leaves a part of the graph unchecked.")
    for blob in manifest.blobs:
        held = manifest.files.get(blob.file)
        if held is None or blob.file == GRAPH:
            raise Malformed(f"its manifest puts {blob.name} into no file of its own.")
        if not (blob.nbytes >= 0 and held.head <= blob.at <= held.nbytes - blob.nbytes):
            raise Malformed(f"its manifest puts {blob.name} outside its file.")
        if min(blob.shape, default=0) < 0 or prod(blob.shape) * DTYPES[blob.dtype] != blob.nbytes:
            raise Malformed(f"its manifest gives {blob.name} a size that its shape does not have.")
