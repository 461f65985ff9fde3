"""What `gpufit checkpoint show` shows of a job's checkpoints, as a text and as JSON; it unpickles nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..checkpoint.files import Checkpoint, listed, open_checkpoint
from ..checkpoint.manifest import StoredBlob
from ..errors import CheckpointBroken, NotYours
from ..units import format_bytes, format_duration
from .columns import columns

LARGEST = 10  # tensors that are named


def as_json(directory: Path, *, every: bool = False, check: bool = False) -> dict[str, Any]:
    """The job's checkpoints, newest first; `every` tensor, not only the largest; `check` reads all bytes."""
    good, bad = _listed(directory, check)
    return {
        "format": 1,
        "directory": str(directory),
        "checkpoints": [_record(checkpoint, every) for checkpoint in good],
        "broken": [{"path": error.path, "why": str(error)} for error in bad],
        "checked": check,
    }


def as_text(directory: Path, *, now: float | None = None, every: bool = False, check: bool = False) -> str:
    """The same as tables: all checkpoints, then what the newest holds."""
    good, bad = _listed(directory, check)
    parts = (
        [_overview(good, time.time() if now is None else now)] if good else ["There is no checkpoint that can be used."]
    )
    if good:
        parts += [_inside(good[0]), _tensors(good[0].manifest.blobs, None if every else LARGEST)]
    if good and check:
        parts.append("All bytes were read, and they are what was written.")
    return "\n\n".join([*parts, *(str(error) for error in bad)])


def _listed(directory: Path, check: bool) -> tuple[list[Checkpoint], list[CheckpointBroken | NotYours]]:
    good, bad = listed(directory)
    whole: list[Checkpoint] = []
    for checkpoint in good if check else ():
        try:
            open_checkpoint(checkpoint.path).close()
            whole.append(checkpoint)
        except (CheckpointBroken, NotYours) as error:
            bad.append(error)
    return whole if check else good, bad


def _record(checkpoint: Checkpoint, every: bool) -> dict[str, Any]:
    manifest = checkpoint.manifest
    blobs = manifest.blobs if every else _largest(manifest.blobs, LARGEST)
    return {
        "name": manifest.name,
        "path": str(checkpoint.path),
        **asdict(manifest.about),
        "bytes": checkpoint.nbytes,
        "files": {name: file.nbytes for name, file in manifest.files.items()},
        "tensors": len(manifest.blobs),
        "largest": [{key: vars(blob)[key] for key in ("name", "dtype", "shape", "nbytes", "file")} for blob in blobs],
    }


def _overview(good: Sequence[Checkpoint], now: float) -> str:
    rows = [("checkpoint", "step", "saved", "size", "where", "device", "")]
    for checkpoint in good:
        about = checkpoint.about
        ago = f"{format_duration(max(0.0, now - about.time))} ago"
        asked = "automatic" if about.automatic else ""
        size = format_bytes(checkpoint.nbytes)
        rows.append((checkpoint.manifest.name, f"{about.step:,}", ago, size, about.where, about.device, asked))
    return columns(rows)


def _inside(checkpoint: Checkpoint) -> str:
    about = checkpoint.about
    versions = {"Python": about.python, "torch": about.torch, **about.versions}
    rows = [("in the newest", "")]
    rows += [(name, format_bytes(file.nbytes)) for name, file in checkpoint.manifest.files.items()]
    rows += [(name, version) for name, version in versions.items() if version]
    return f"{checkpoint.path}\n{columns(rows)}"


def _tensors(blobs: Sequence[StoredBlob], count: int | None) -> str:
    rows = [("tensor", "type", "shape", "size", "file")]
    for blob in _largest(blobs, len(blobs) if count is None else count):
        shape = " x ".join(map(str, blob.shape)) or "-"
        rows.append((blob.name, blob.dtype, shape, format_bytes(blob.nbytes), blob.file))
    more = len(blobs) - len(rows) + 1
    return columns(rows) + (f"\nand {more:,} smaller ones" if more else "")


def _largest(blobs: Sequence[StoredBlob], count: int) -> list[StoredBlob]:
    return sorted(blobs, key=lambda blob: -blob.nbytes)[:count]
