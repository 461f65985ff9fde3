"""Figures that a page shows: the canvas stays in the notebook, and what is drawn travels."""

from __future__ import annotations

import pytest

from .crossing import cross_here, notebook

SETUP = """
import threading
from matplotlib.backend_bases import FigureManagerBase, MouseEvent
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

class Manager(FigureManagerBase):
    def __init__(self, canvas, number):
        super().__init__(canvas, number)
        self.line = threading.Lock(); self.line.acquire()
        self.canvas.figure.add_axobserver(lambda figure: self)

class Canvas(FigureCanvasAgg):
    manager_class = Manager
    drawn = 0
    def draw_idle(self): self.drawn += 1

figure = Figure(); canvas = Canvas(figure); manager = Manager(canvas, 1)
ax = figure.add_subplot(); (line,) = ax.plot([1, 2])
heard = []
canvas.mpl_connect("button_press_event", heard.append)
"""


@pytest.mark.slow
def test_it_is_drawn_on_in_the_worker_and_shown_where_it_was() -> None:
    namespace = notebook(SETUP)
    figure, canvas = namespace["figure"], namespace["canvas"]
    callbacks = figure._canvas_callbacks

    returned = cross_here(
        namespace,
        "import io\nline.set_ydata([5, 6]); ax.set_title('trained'); canvas.draw(); figure.savefig(io.BytesIO())\n"
        "same = figure.canvas is canvas, ax.figure is figure, type(canvas).__name__\nfigure.text(0, 0, 'more')",
        *("figure", "canvas", "ax", "line"),
    ).returned

    assert returned.left_behind == () and namespace["same"] == (True, True, "FigureCanvasBase")
    assert figure.canvas is canvas is namespace["canvas"] and canvas.manager is namespace["manager"]
    assert canvas.figure is figure is namespace["ax"].figure and canvas.drawn > 0
    assert list(namespace["line"].get_ydata()) == [5, 6] and namespace["ax"].get_title() == "trained"
    assert [text.get_text() for text in figure.texts] == ["more"]
    assert figure._canvas_callbacks is callbacks
    namespace["MouseEvent"]("button_press_event", canvas, 1, 1, button=1)._process()
    assert len(namespace["heard"]) == 1
    canvas.draw()


@pytest.mark.slow
def test_one_that_cannot_be_drawn_anew_keeps_nothing_else_back() -> None:
    namespace = notebook(SETUP + "def fails(): raise OSError('no page')\ncanvas.draw_idle = fails\n")

    returned = cross_here(namespace, "ax.set_title('trained'); made = 1", "figure", "ax").returned

    assert namespace["made"] == 1 and namespace["ax"].get_title() == "trained"
    assert returned.remarks == ("A figure came back and could not be drawn anew: OSError('no page')",)


@pytest.mark.slow
def test_one_that_was_never_drawn_before_comes_back_whole() -> None:
    namespace = notebook(SETUP.replace("manager = Manager(canvas, 1)", ""))

    returned = cross_here(namespace, "figure.savefig('/dev/null', format='png')", "figure", "ax", "line").returned

    assert returned.left_behind == ()
    namespace["line"].set_data([0, 1, 2], [0, 9, 0])
    namespace["ax"].relim()
    namespace["ax"].autoscale_view()
    namespace["canvas"].draw()
    assert namespace["ax"].get_ylim()[1] > 9
