"""Pictures of the lab's history as SVG, drawn by the server: they need no script. Pure.

Colours and fonts come from the page's style, so that they are right in the light and in the dark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .store import BusyPoint

WIDTH, HEIGHT = 320, 96
LEFT, BOTTOM = 40, 18
HOUR = 3600.0


def bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """One bar for each name, the longest first as they come."""
    most = max((value for _, value in rows), default=0.0) or 1.0
    line = 22
    shapes = []
    for number, (name, value) in enumerate(rows):
        y = number * line
        width = max(1.0, 180 * value / most)
        shapes.append(
            f'<text x="120" y="{y + 15}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect class="bar" x="126" y="{y + 3}" width="{width:.1f}" height="16" rx="2"/>'
            f'<text x="{132 + width:.1f}" y="{y + 15}">{value:.1f}&#8239;{escape(unit)}</text>'
        )
    words = ", ".join(f"{name} {value:.1f} {unit}" for name, value in rows)
    return _svg(shapes, 380, max(1, len(rows)) * line, words)


def lines(points: Sequence[BusyPoint], start: float, end: float, stretch: float, label: str) -> str:
    """How busy one device was; where nobody looked there is no line."""

    def x(moment: float) -> float:
        return LEFT + (WIDTH - LEFT) * (moment - start) / (end - start)

    def y(busy: float) -> float:
        return 4 + (HEIGHT - BOTTOM - 8) * (1 - busy)

    shapes = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y(at):.1f}" y2="{y(at):.1f}"/>'
        f'<text x="{LEFT - 4}" y="{y(at) + 4:.1f}" text-anchor="end">{at:.0%}</text>'
        for at in (0.0, 0.5, 1.0)
    ]
    shapes += [
        f'<text x="{x(moment):.1f}" y="{HEIGHT - 3}" text-anchor="{anchor}">{words}</text>'
        for moment, words, anchor in _hours(start, end)
    ]
    for piece in _pieces(points, start, stretch):
        path = " ".join(
            f"{x(max(start, at.time)):.1f},{y(at.busy):.1f} {x(min(end, at.time + stretch)):.1f},{y(at.busy):.1f}"
            for at in piece
        )
        shapes.append(f'<polyline class="line" points="{path}"/>')
    mean = sum(point.busy for point in points) / len(points) if points else 0.0
    return _svg(shapes, WIDTH, HEIGHT, f"{label}: {mean:.0%} on average over the time shown")


def mean_busy(points: Mapping[str, Sequence[BusyPoint]], device: str) -> float | None:
    found = points.get(device)
    return sum(point.busy for point in found) / len(found) if found else None


def _pieces(points: Iterable[BusyPoint], start: float, stretch: float) -> list[list[BusyPoint]]:
    pieces: list[list[BusyPoint]] = []
    for point in points:
        if point.time + stretch <= start:
            continue
        if pieces and point.time - pieces[-1][-1].time < 1.5 * stretch:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _hours(start: float, end: float) -> list[tuple[float, str, str]]:
    """Begin, middle and end, in the machine's own time."""
    moments = ((start, "start"), ((start + end) / 2, "middle"), (end, "end"))
    return [(moment, time.strftime("%a %H:%M", time.localtime(moment)), anchor) for moment, anchor in moments]


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def _svg(shapes: Iterable[str], width: float, height: float, words: str) -> str:
    body = "".join(shapes)
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}">'
        f"<title>{escape(words)}</title>{body}</svg>"
    )
