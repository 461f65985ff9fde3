"""Curves as small pictures in HTML: no script, no style sheet, and colours of the theme that shows them; pure."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

from ..jobs.curves import Point, runs, thinned
from ..units import format_figure

WIDTH, HEIGHT = 260, 56  # pixels
BLOCKS = "▁▂▃▄▅▆▇█"


def picture(
    points: Sequence[Point],
    name: str,
    value: str,
    *,
    words: str,
    line: float | None = None,
    cuts: Sequence[float] = (),
    written: Callable[[float], str] = format_figure,
) -> str:
    """A curve from its least value to its largest; `words` are for a screen reader, `line` is a mark across.

    No line is drawn over one of `cuts`: the training had left its device there.
    """
    known = [(x, y) for x, y in thinned(points) if y is not None and math.isfinite(y)]
    said = f'<span style="opacity:.75">{html.escape(name)}</span> {html.escape(value)}'
    if len(known) < 2:
        return f'<p style="{_TEXT};margin:0 12px 2px 0">{said}</p>'
    heights = [y for _, y in known]
    least, largest = written(min(heights)), written(max(heights))
    span = f"{least} to {largest}" if line is None and least != largest else ""
    return (
        f'<figure style="margin:0 12px 2px 0;display:inline-block;width:calc(100% - 12px);max-width:{WIDTH}px">'
        f'<figcaption style="{_TEXT};display:flex;flex-wrap:wrap;gap:0 8px;white-space:nowrap">'
        f'<span style="flex:1;max-width:100%;overflow:hidden;text-overflow:ellipsis">{said}</span>'
        f' <span style="opacity:.75">{span}</span></figcaption>'
        f'<svg role="img" aria-label="{html.escape(words)}" width="100%" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        # No browser draws this. Where drawings are taken out of what people saved (on GitHub), their texts are left.
        f"<desc>{in_text(known)}</desc>{_drawn(known, line, cuts)}</svg></figure>"
    )


def in_text(points: Sequence[Point], columns: int = 32) -> str:
    """The curve in a line of text: ▇▅▃▂▁; empty where there is nothing to draw."""
    known = [(x, y) for x, y in points if y is not None and math.isfinite(y)]
    if len(known) < 2 or (span := known[-1][0] - known[0][0]) <= 0:
        return ""
    columns = min(columns, len(known))
    heights: dict[int, float] = {}
    for x, y in known:
        heights[min(columns - 1, int(columns * (x - known[0][0]) / span))] = y  # the last one of each column
    low, high = min(heights.values()), max(heights.values())
    drawn, last = "", known[0][1]
    for column in range(columns):
        last = heights.get(column, last)
        drawn += BLOCKS[round((len(BLOCKS) - 1) * (last - low) / (high - low)) if high > low else 0]
    return drawn


_TEXT = "font-size:85%;line-height:1.5"


def _drawn(known: Sequence[tuple[float, float]], line: float | None, cuts: Sequence[float]) -> str:
    heights = [y for _, y in known] + ([line] if line is not None else [])
    left, right, low, high = known[0][0], known[-1][0], min(heights), max(heights)

    def across(x: float) -> float:
        return WIDTH * ((x - left) / (right - left) if right > left else 1.0)

    def down(y: float) -> float:
        return 3 + (HEIGHT - 6) * (1 - ((y - low) / (high - low) if high > low else 0.5))

    curves = [
        " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in stretch if y is not None) for stretch in runs(known, cuts)
    ]
    mark = (
        f'<line x1="0" x2="{WIDTH}" y1="{down(line):.1f}" y2="{down(line):.1f}"'
        ' stroke="var(--jp-warn-color1, #d80)" stroke-dasharray="4 3"/>'
        if line is not None
        else ""
    )
    look = 'fill="none" stroke="var(--jp-brand-color1, #1976d2)" stroke-width="1.5" stroke-linecap="round"'
    return mark + "".join(f'<polyline points="{curve}" {look}/>' for curve in curves)
