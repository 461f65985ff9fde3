"""A figure of matplotlib that was made before the loop can be drawn on after it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from .test_refusals import problems
from .test_restore import through

MADE = (
    "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.close('all')\n"
    "fig, (ax, below) = plt.subplots(2); line, = ax.plot([1, 2, 3]); ax.legend([line], ['loss'])\n"
)
DRAWN = "below.imshow([[1, 2], [3, 4]]); ax.twinx().bar([1, 2], [3, 4]); fig.canvas.draw()\n"


@pytest.mark.slow
@pytest.mark.parametrize("cell", [MADE, MADE + DRAWN])
def test_a_figure_can_be_saved(cell: str) -> None:
    assert problems(cell) == {}


def _drawn(names: dict[str, Any]) -> bytes:
    names["line"].set_ydata([5, 6, 9])
    names["ax"].relim()
    names["ax"].autoscale_view()
    names["below"].set_position((0.2, 0.1, 0.5, 0.3))
    names["fig"].set_size_inches(5, 5)
    drawn = io.BytesIO()
    names["fig"].savefig(drawn, format="rgba")
    return drawn.getvalue()


@pytest.mark.slow
def test_a_change_reaches_all_that_depends_on_it() -> None:
    there: dict[str, Any] = {}
    plain: dict[str, Any] = {}

    through(MADE + DRAWN, there)

    exec(MADE + DRAWN, plain)
    assert there["ax"].figure is there["fig"] and there["line"].axes is there["ax"]
    assert _drawn(there) == _drawn(plain)
