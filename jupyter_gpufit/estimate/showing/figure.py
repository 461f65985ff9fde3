"""The picture of memory over one step as SVG or PNG. matplotlib is imported here and only when asked."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Literal

from ...units import GiB, MiB, format_bytes
from ..reckoning.record import Kind
from ..reckoning.report import LABELS
from ..reckoning.timeline import ORDER, Timeline

# Okabe and Ito's colours, which also those who see no red or green can tell apart; no black, lost on a dark page.
COLOURS: Mapping[Kind, str] = {
    "parameter": "#0072B2",
    "buffer": "#999999",
    "optimizer state": "#56B4E9",
    "gradient": "#009E73",
    "input": "#F0E442",
    "workspace": "#CC79A7",
    "activation": "#E69F00",
    "temporary": "#D55E00",
}
SIZE = 7.2, 2.6  # inches
# A picture in a page does not know its theme, so it has no ground of its own and writes in a grey that is read on both.
INK = "#767676"


def draw(
    line: Timeline, title: str, form: Literal["svg", "png"] = "svg", below: tuple[Timeline, str] | None = None
) -> bytes:
    """The timeline as stacked areas, the peak marked; ImportError where there is no matplotlib.

    `below`: the same step by a plan, and its title, on the same scale.
    """
    from matplotlib.figure import Figure  # without pyplot: the notebook's own backend and figures stay as they are

    shown = [(line, title), *([below] if below else [])]
    figure = Figure(figsize=(SIZE[0], SIZE[1] * len(shown)), layout="constrained")
    for axes, (one, said) in zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown, strict=True):
        _areas(axes, one, said, max(each.most for each, _ in shown))
    with io.BytesIO() as written:
        # A fixed date and hash: the same estimate gives the same bytes, so that a notebook under git does not change.
        figure.savefig(written, format=form, transparent=True, metadata={"Date": None} if form == "svg" else None)
        return written.getvalue()


def _areas(axes: Any, line: Timeline, title: str, most: int) -> None:
    unit, name = (GiB, "GiB") if most >= GiB else (MiB, "MiB")
    used = [kind for kind in ORDER if any(moment[kind] for moment in line.moments)]
    heights = [[moment[kind] / unit for moment in line.moments] for kind in used]
    axes.stackplot(
        range(len(line.moments)),
        *heights,
        labels=[LABELS[kind] for kind in used],
        colors=[COLOURS[kind] for kind in used],
        step="post",
    )
    top = line.most / unit
    axes.plot([line.peak], [top], "v", color=INK, markersize=5)
    axes.annotate(format_bytes(line.most), (line.peak, top), (4, 2), textcoords="offset points", color=INK)
    axes.set_title(title, color=INK)
    axes.set(xmargin=0, ylim=(0, most / unit * 1.15), facecolor="none")
    axes.set_ylabel(f"{name} in tensors", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[:].set_color(INK)
    _mark_phases(axes, line)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True, labelcolor=INK)


def _mark_phases(axes: object, line: Timeline) -> None:
    places = {0: "forward", line.backward: "backward", line.optimizer: "optimizer"}
    known = {place: word for place, word in places.items() if place is not None}
    axes.set_xticks(list(known), list(known.values()), ha="left")  # type: ignore[attr-defined]
