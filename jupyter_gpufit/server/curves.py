"""What a job's numbers did, for a browser: read from its journal once, and then only what was added. For threads.

A client that draws asks every few seconds. It is sent no more points than its picture has pixels, so that nothing needs
to be kept there; what is kept here is bounded, and given up when others are asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ..jobs import journal
from ..jobs.curves import MOST, Curves, Point, thinned
from ..jobs.events import DeviceMark, Lap, Metrics, ProgressMark, StateChange
from ..jobs.paths import JobPaths
from ..jobs.picked import picked, shown
from . import wire

DRAWN = frozenset({Metrics.kind, ProgressMark.kind, DeviceMark.kind, Lap.kind, StateChange.kind})
TICKS = 200  # points of a run's clock
MOST_KEPT = 500_000  # points of all runs, about 50 MiB; what was asked for longest ago goes first


@dataclass
class _Known:
    """One job's numbers, up to an entry of its journal."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    after: int = 0
    curves: Curves = field(default_factory=Curves)

    def catch_up(self, paths: JobPaths) -> None:
        reader = journal.JournalReader(paths.journal, self.after, DRAWN)
        try:
            for entry in reader.read():
                self.curves.take(entry.event, entry.time)
        finally:
            self.after = reader.after
            reader.close()  # no file stays open between two questions: the job may be deleted


class CurveReader:
    """All that were asked for lately."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def read(self, paths: JobPaths, *, whole: bool, names: Collection[str] = (), most: int = MOST) -> wire.WireCurves:
        """These numbers, or those that its user wants drawn, over the whole run or of late, and its memory.

        Of each at most so many points.
        """
        known = self._of(paths)
        with known.guard:
            known.catch_up(paths)
            curves, there = known.curves, known.curves.metrics
            chosen = [name for name in there if name in names] if names else shown(there, picked(paths))
            return wire.WireCurves(
                names=tuple(there),
                curves=tuple(
                    wire.WireCurve(name=name, points=_drawn(curves.points(name, whole=whole), most)) for name in chosen
                ),
                memory=_drawn(curves.memory.points(whole=whole), most),
                clock=_drawn(curves.clock.points(), TICKS),
                busy=_drawn(curves.busy.points(whole=whole), most),
                power=_drawn(curves.power.points(whole=whole), most),
                breaks=tuple(curves.breaks),
                laps=tuple((lap.step, lap.number) for lap in curves.laps),
                older=curves.older,
            )

    def _of(self, paths: JobPaths) -> _Known:
        with self._guard:
            known = self._known.setdefault(str(paths.root), _Known())
            self._known.move_to_end(str(paths.root))
            kept = sum(one.curves.size for one in self._known.values())
            while kept > MOST_KEPT and len(self._known) > 1:
                kept -= self._known.popitem(last=False)[1].curves.size
            return known


def read_stretch(paths: JobPaths, names: Collection[str], start: float, stop: float, most: int) -> wire.WireCurves:
    """All that the journal has of these numbers between two steps, for somebody who looks closely."""
    found: dict[str, dict[float, float | None]] = {name: {} for name in names}
    reader = journal.JournalReader(paths.journal, 0, frozenset({Metrics.kind}))
    try:
        for entry in reader.read():
            assert isinstance(entry.event, Metrics)
            if start <= entry.event.step <= stop:
                for name in found.keys() & entry.event.values.keys():
                    found[name][float(entry.event.step)] = entry.event.values[name]  # what came later is drawn over
    finally:
        reader.close()
    curves = (wire.WireCurve(name=name, points=_drawn(sorted(points.items()), most)) for name, points in found.items())
    return wire.WireCurves(names=tuple(names), curves=tuple(curves))


def _drawn(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    few = thinned(points, most)
    return tuple((_short(at), None if value is None else _short(value)) for at, value in few)


def _short(value: float) -> float:
    """Without digits that no picture shows; of a time in seconds since 1970, milliseconds stay."""
    return value if value.is_integer() else float(f"{value:.13g}")
