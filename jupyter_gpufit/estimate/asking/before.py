"""What was estimated before is not estimated again: the same cell, given the same, on the same kind of device.

The same is: its text, all that travels with it but the bytes of tensors and the generators' states (so the code of the
notebook's functions, every shape, dtype and plain value), the environment, what is installed, and the files that its
trace read. Where one of them is not known, a trace is made. What a cell reads out of a tensor's numbers (a batch padded
to its longest text) may differ from trace to trace, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ...graph.spans import MEMORY, Place
from ...graph.wire import split
from ...settings import Settings
from ...surroundings import generators
from ...system.directories import data_dir
from ...system.files import write_whole
from ...system.foreign import parsed_record
from ...system.version import version
from ..tracing.read import installed, look_at
from .ask import Ask, TraceAnswer

FORMAT = 3
MOST_KEPT = 200  # estimates
# What differs though it is the same: the kernel in the names of cells' files, and cloudpickle's mark of a class, which
# a cell that is run again makes anew.
_OF_ONE_RUN = re.compile(rb"ipykernel_\d+|\x8c\x20[0-9a-f]{32}(?=\x94)")
_OF_ONE_START = ("JPY_", "GPUFIT_RUNTIME", "XDG_", "DBUS_", "SSH_", "SHLVL", "OLDPWD", "WINDOWID", "TERM")


def key_of(source: str, graph: bytes, ask: Ask) -> str:
    """Of an estimate; empty where it cannot be said what the cell is given."""
    header, stream = split(graph)
    if "places" not in header:
        return ""
    header["sources"] = {name: lines for name, (lines, _) in header["sources"].items()}  # not the cell's number
    del header["alone"]  # of whose bytes there is only one, which is no matter of what is computed
    places, bytes_of = header.pop("places"), list(_bytes_of(header.pop("table"), header.pop("extents")))
    key = hashlib.blake2b(digest_size=16)
    for part in (_text(source), *_given(places, stream), repr((bytes_of, sorted(header.items()))).encode()):
        key.update(_OF_ONE_RUN.sub(b"", part))
        key.update(b"\0")
    key.update(repr((FORMAT, ask.encode(), _here())).encode())
    return key.hexdigest()


def find(settings: Settings, key: str) -> TraceAnswer | None:
    """What was answered before, if all that its trace read is as it was."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = parsed_record(_path(settings, key).read_bytes())
        if record["format"] == FORMAT and all(list(look_at(was[0])) == was for was in record["read"]):
            return TraceAnswer.decode(json.dumps(record["answer"]).encode())
    return None


def keep(settings: Settings, key: str, answer: TraceAnswer) -> None:
    """For the next time; a disk that is full loses it."""
    if not key or answer.read is None:
        return
    path = _path(settings, key)
    told = json.loads(answer.without_drawing().encode())
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps({"format": FORMAT, "read": answer.read, "answer": told}))
        for old in sorted(path.parent.glob("*.json"), key=_age)[MOST_KEPT:]:
            old.unlink(missing_ok=True)


def _path(settings: Settings, key: str) -> Path:
    return data_dir(settings) / "estimated" / f"{key}.json"


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _text(source: str) -> bytes:
    """Without the first line, the magic's, whose options decide nothing that is not in the question."""
    lines = source.splitlines()
    return "\n".join(lines[1:] if lines and lines[0].startswith("#") else lines).encode()


def _given(places: dict[str, tuple[int, int]], stream: bytes) -> Iterator[bytes]:
    for name, (begin, end) in sorted(places.items()):
        if name != generators.NAME:
            yield name.encode()
            yield stream[begin:end]


def _bytes_of(table: Sequence[Place], extents: Sequence[tuple[int, int]]) -> Iterator[Place]:
    """Who shares whose bytes, and how many: they lie elsewhere each time."""
    regions: dict[int, int] = {}  # by where they begin, in the order in which they are met
    for source, offset, nbytes in table:
        at = bisect_right(extents, offset, key=lambda extent: extent[0]) - 1
        if source == MEMORY and at >= 0:
            start = extents[at][0]
            yield regions.setdefault(start, len(regions)), offset - start, nbytes
        else:
            yield -source, offset, nbytes


def _here() -> tuple[object, ...]:
    env = sorted((name, value) for name, value in os.environ.items() if not name.startswith(_OF_ONE_START))
    torch = sys.modules.get("torch")
    packages = [look_at(place) for place in installed()]
    return version(), sys.version, getattr(torch, "__version__", ""), env, os.getcwd(), packages
