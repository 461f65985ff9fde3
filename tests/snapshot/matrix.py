"""Kill and resume, at many safe points of many cells: does the training end as if nothing had happened?

A run that is saved at point N trains on for some points and dies of SIGKILL; another process goes on from there.
Compared are all variables bit by bit, the random generators, and what was printed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .matrix_cells import CELLS, Cell
from .training import FILE, Told, Trainings


@dataclass
class Row:
    """One cell's line of the table."""

    name: str
    points: int = 0
    tried: int = 0
    identical: int = 0
    deferred: int = 0
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stood_in: set[tuple[str, str, str]] = field(default_factory=set)  # functions of libraries; see Told

    def __str__(self) -> str:
        found = (
            f"{self.name:14} {self.points:6} {self.tried:6} {self.identical:10} {self.deferred:9} {self.seconds:8.1f} s"
        )
        return "\n".join([found, *(f"    {one}" for one in self.differences)])


HEAD = f"{'cell':14} points  tried  identical  deferred"


class Matrix:
    def __init__(self, trainings: Trainings, directory: Path) -> None:
        self._trainings, self._directory = trainings, directory
        self._runs = 0

    def row(self, name: str, wanted: int | None = None, *, places: bool = False) -> Row:
        """Try `wanted` points, spread evenly; all of them by default. With `places`, of each place one point."""
        began, cell, row = time.monotonic(), CELLS[name], Row(name)
        plain = self._run(cell, plain=True)
        whole = self._run(cell)
        row.points, row.stood_in = whole.points, whole.stood_in
        row.differences += [f"rewritten: {one}" for one in differences(plain, whole)]
        for point in of_each(whole.places) if places else spread(row.points, wanted):
            self._try(cell, point, whole, row)
        row.seconds = round(time.monotonic() - began, 1)
        return row

    def _try(self, cell: Cell, point: int, whole: Told, row: Row) -> None:
        directory = self._own_directory()
        saved = directory / "saved"
        more = min(1 + point % 6, row.points - point)
        died = self._run(cell, directory, at=point, more=more, save=str(saved))
        if died.error.startswith("NotHere") or "This may pass" in died.error:  # a job would try its next places
            row.deferred += 1
            return
        assert not died.error, died.error
        assert not died.digests, "it was to be killed"
        row.tried += 1
        found = differences(whole, self._run(cell, directory, of=str(saved)))
        row.identical += not found
        row.differences += [f"point {point}: {one}" for one in found]

    def chain(self, name: str, gaps: Iterable[int]) -> int:
        """Save, train on, die and go on, again and again; returns how often."""
        cell = CELLS[name]
        whole = self._run(cell)
        directory, of = self._own_directory(), None
        for number, gap in enumerate(gaps):
            saved = str(directory / f"saved {number}")
            asked: dict[str, Any] = {} if of is None else {"of": of}
            told = self._run(cell, directory, at=gap, more=1 + number % 4, save=saved, **asked)
            if told.digests:  # it came to its end
                assert not differences(whole, told)
                return number
            assert told.error.startswith("NotHere") or not told.error, told.error
            if not told.error:
                of = saved
        raise AssertionError("the cell did not end")

    def _run(self, cell: Cell, directory: Path | None = None, *, plain: bool = False, **asked: Any) -> Told:
        text = cell.text
        if plain:  # without a loop of its own the cell is left as it is
            text = f"exec(compile({text!r}, {FILE!r}, 'exec', dont_inherit=True), globals())"
        place = str(directory or self._own_directory())
        told = self._trainings.run(text, before=cell.before, loads=cell.loads, directory=place, all=True, **asked)
        if cell.clock:
            told.output = "\n".join(line for line in told.output.splitlines() if cell.clock not in line)
        return told

    def _own_directory(self) -> Path:
        self._runs += 1
        made = self._directory / str(self._runs)
        made.mkdir()
        return made


def of_each(places: Sequence[Any]) -> Sequence[int]:
    """Of the points that stand at one place, the one in the middle: neither its loop's first nor its last."""
    points: dict[Any, list[int]] = {}
    for number, place in enumerate(places[:-1], 1):
        points.setdefault(place, []).append(number)
    return sorted(found[len(found) // 2] for found in points.values())


def spread(points: int, wanted: int | None) -> Sequence[int]:
    """Points behind which there is another one to die at."""
    last = points - 1
    if wanted is None or wanted >= last:
        return range(1, last + 1)
    return sorted({1 + round(number * (last - 1) / max(1, wanted - 1)) for number in range(wanted)})


def differences(one: Told, other: Told) -> list[str]:
    found = [
        f"{name}: {one.digests.get(name)} / {other.digests.get(name)}"
        for name in sorted(one.digests.keys() | other.digests.keys())
        if one.digests.get(name) != other.digests.get(name)
    ]
    if one.output != other.output:
        pairs = zip(one.output.splitlines(), other.output.splitlines(), strict=False)
        found.append(next((f"printed {a!r} / {b!r}" for a, b in pairs if a != b), "printed more or less"))
    return found
