"""Curves as small pictures in HTML: no script, no style sheet, and colours of the theme that shows them; pure."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

WIDTH, HEIGHT = 260, 56  # pixels
MOST = 240  # points drawn: more than one to a pixel shows nothing new

Point = tuple[float, float | None]  # None: not a finite number, a hole in the curve


def picture(points: Sequence[Point], label: str, *, words: str, line: float | None = None) -> str:
    """A curve from its least value to its largest; `words` are for a screen reader, `line` is a mark across."""
    known = [(x, y) for x, y in thinned(points) if y is not None and math.isfinite(y)]
    if len(known) < 2:
        return ""
    heights = [y for _, y in known] + ([line] if line is not None else [])
    left, right, low, high = known[0][0], known[-1][0], min(heights), max(heights)

    def place(x: float, y: float) -> str:
        across = (x - left) / (right - left) if right > left else 1.0
        up = (y - low) / (high - low) if high > low else 0.5
        return f"{across * WIDTH:.1f},{3 + (1 - up) * (HEIGHT - 6):.1f}"

    curve = " ".join(place(x, y) for x, y in known)
    mark = (
        f'<line x1="0" x2="{WIDTH}" y1="{place(left, line).split(",")[1]}" y2="{place(left, line).split(",")[1]}"'
        ' stroke="var(--jp-warn-color1, #d80)" stroke-dasharray="4 3"/>'
        if line is not None
        else ""
    )
    return (
        f'<figure style="margin:2px 12px 2px 0;display:inline-block"><figcaption style="font-size:85%;opacity:.75">'
        f"{html.escape(label)}</figcaption>"
        f'<svg role="img" aria-label="{html.escape(words)}" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}">{mark}'
        f'<polyline points="{curve}" fill="none" stroke="var(--jp-brand-color1, #1976d2)" stroke-width="1.5"/></svg>'
        "</figure>"
    )


def thinned(points: Sequence[Point], most: int = MOST) -> list[Point]:
    """At most so many of the points, evenly and with the last: a curve's newest value is the one that is read."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]


def figure(value: float | None) -> str:
    """A value as people read it: four digits."""
    return "not a number" if value is None else f"{value:.4g}"
