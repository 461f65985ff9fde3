"""What a cell shows is what it shows in an ordinary notebook, as that has been told to show it; also after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel, Ran

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

VIEW = "application/vnd.jupyter.widget-view+json"

SET_UP = """
%load_ext jupyter_gpufit
%matplotlib inline
%config InlineBackend.figure_format = "retina"
%config InlineBackend.print_figure_kwargs = {"bbox_inches": None}
%precision 3
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.ast_node_interactivity = "all"
import pathlib, time
import matplotlib.pyplot as plt
from IPython.display import display
"""
SHOWS = """
figure, axes = plt.subplots(figsize=(2, 1))
axes.plot([1, 2])
display(figure)
plt.show()
1.23456
2.34567
"""


def outputs(kernel: Kernel) -> str:
    """What stands in the output widgets that the kernel shows."""
    kernel.check("from ipywidgets.widgets import widget as _w")
    return kernel.check("print([one.get_state().get('outputs') for one in _w._instances.values()])").stdout


def pictures(ran: Ran) -> list[Any]:
    return [shown["image/png"] for shown in ran.displays if "image/png" in shown]


def texts(ran: Ran) -> list[str]:
    """Without our own, which say how the job stands."""
    return [shown["text/plain"] for shown in ran.displays if "text/html" not in shown]


def test_a_cell_shows_figures_and_numbers_as_its_notebook_was_told_to(kernel: Kernel) -> None:
    kernel.check(SET_UP)
    kernel.check("import os\nos.environ['MPLBACKEND'] = 'agg'")  # as an administrator may have set it for scripts
    plain = kernel.check(SHOWS)

    ran = kernel.check("%%gpufit train\n" + SHOWS)

    assert len(pictures(plain)) == 2 and pictures(ran) == pictures(plain)
    assert ran.result == plain.result and ran.result is not None and ran.result["text/plain"] == "2.346"
    assert texts(ran) == texts(plain)


def test_what_a_cell_told_its_notebook_holds_afterwards(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n%precision 3")

    kernel.check("%%gpufit train\nget_ipython().run_line_magic('precision', '2')")

    assert (kernel.check("1.23456").result or {})["text/plain"] == "1.23"


def test_a_module_that_arrives_asks_at_its_import_whether_it_is_in_a_notebook(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text("in_notebook = type(get_ipython()).__name__ == 'ZMQInteractiveShell'")
    kernel.check(f"%load_ext jupyter_gpufit\nimport sys; sys.path.insert(0, {str(tmp_path)!r}); import drawn")

    assert kernel.check("%%gpufit train\nprint(drawn.in_notebook)").stdout == "True\n"


KINDS = (
    SET_UP
    + """
%precision %r
InteractiveShell.ast_node_interactivity = "last_expr"
import pandas as pd
from IPython.display import HTML
class Own:
    def __init__(self, step): self.step = step
    def _repr_html_(self): return f"<i>own {self.step}</i>"
figure, axes = plt.subplots(figsize=(2, 1)); plt.close()
"""
)
OF_EVERY_KIND = """
handle = display(figure, display_id=True)
for step in range(4):
    axes.plot([step, 1])
    handle.update(figure)
    plt.figure(figsize=(2, 1)); plt.plot([step, 2]); plt.show()
    display(pd.DataFrame({"step": [step]}), HTML(f"<b>html {step}</b>"), Own(step))
    print("drew", step)  # and no word that the card says, too, which may come before a picture does
    while step in (1, 2) and not (here / f"{step}").exists():
        time.sleep(0.01)
"""


@pytest.mark.slow(17)
def test_what_is_shown_is_of_its_kind_after_a_resume_and_after_a_move(
    env: dict[str, str], kernel: Kernel, second_kernel: Kernel, tmp_path: Path
) -> None:
    """In the cell, and where somebody attaches."""
    for name in ("1", "2"):
        (tmp_path / name).touch()
    plain = drawn(kernel.check(KINDS + f"here = pathlib.Path({str(tmp_path)!r})\n" + OF_EVERY_KIND))
    assert len(plain) == 1 + 4 * 5
    for name in ("1", "2"):
        (tmp_path / name).unlink()

    kernel.check(KINDS)
    begins = kernel.send("%%gpufit train --name kinds\n" + OF_EVERY_KIND)
    before = drawn(kernel.until(begins, "drew 1"))
    gpufit(env, "release", "kinds")
    kernel.finish(begins)
    goes_on = kernel.send("%gpufit resume kinds")
    (tmp_path / "1").touch()
    kernel.until(goes_on, "drew 2")
    attached = second_kernel.send("%gpufit attach kinds")
    second_kernel.until(attached, "drew 2")
    moved = gpufit(env, "move", "kinds", "--to", "cpu:1")
    assert moved.returncode == 0, moved.stderr
    (tmp_path / "2").touch()

    after = drawn(kernel.until(goes_on, "kinds: done"))
    ended = kernel.finish(goes_on)
    assert ended.ok, ended
    assert before + after == plain
    assert drawn(second_kernel.until(attached, "kinds: done")) == plain


def drawn(ran: Ran) -> list[str]:
    """Each picture and each piece of HTML that a cell shows, less our own."""
    theirs = [one for one in ran.displays if VIEW not in one]  # that is the job's card
    found = [one.get("image/png") or one.get("text/html", "") for one in theirs]
    return [one for one in found if one and "opacity:.7" not in one]


def test_after_a_resume_a_figure_is_a_picture_its_handle_comes_back_and_bars_go_on(
    kernel: Kernel, second_kernel: Kernel, tmp_path: Path
) -> None:
    kernel.check(SET_UP + "figure, axes = plt.subplots()\nplt.close()\nfrom rich.progress import track")
    kernel.check(f"end = pathlib.Path({str(tmp_path / 'end')!r})")
    cell = """%%gpufit train --name draws
from tqdm.notebook import tqdm
bar = tqdm(total=2)
bar.update()
handle = display(figure, display_id=True)
for step in track(range(3), "steps"):
    print("step", step)
    while step == 1 and not end.exists():
        time.sleep(0.01)
bar.update()
bar.close()
handle.update(figure)
print(f"{step} is the last")
"""
    sent = kernel.send(cell)
    kernel.until(sent, "Figure size")
    second_kernel.check("%load_ext jupyter_gpufit\n%gpufit release draws")
    kernel.finish(sent)
    end = kernel.send("%gpufit resume draws")
    kernel.until(end, "running")
    (tmp_path / "end").touch()
    ran = kernel.finish(end)

    assert ran.ok and pictures(ran)[-1] == pictures(kernel.check("display(figure)"))[0]
    kernel.check("handle.update(figure)")
    ends = [shown for shown in ran.displays if "2/2" in shown["text/plain"]]
    assert "--jp-success" in ends[-1]["text/html"] and not ends[0]["update"]  # where it was before may be gone
    assert "100%" in outputs(kernel), "rich draws into a widget"
    assert "2 is the last" in ran.stdout
