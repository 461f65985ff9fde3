"""Progress bars and streams of an earlier cell go on in one that trains."""

from __future__ import annotations

import pytest

from tests.kernels import Kernel


@pytest.mark.slow
@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_bars_and_streams_of_an_earlier_cell_go_on(kernel: Kernel) -> None:
    kernel.check(
        "import sys, tqdm, tqdm.notebook\n"
        "text, shown, out = tqdm.tqdm(total=50), tqdm.notebook.tqdm(total=40), sys.stdout"
    )
    ran = kernel.check(
        "%%gpufit train --memory 1GiB\nfor i in range(4):\n    text.update(1); shown.update(10); print(i, file=out)\n"
        "shown.close()"
    )
    assert ran.stdout == "0\n1\n2\n3\n" and "50 [" in ran.stderr
    kernel.check(
        "bar = shown.container.children[1]\n"
        "assert (text.n, shown.n, bar.value, bar.bar_style) == (4, 40, 40.0, 'success')\n"
        "assert out is sys.stdout and type(shown).__module__ == 'tqdm.notebook'"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_a_bar_of_a_training_cell_goes_on_in_later_ones(kernel: Kernel) -> None:
    """It is the usual one of the Hugging Face course, closed by nobody; the cell that runs again lets go of it."""
    cell = "%%gpufit train --memory 1GiB\nbar = tqdm(total=4, desc='made there')\nfor i in range(3):\n    bar.update(1)"
    kernel.check("from tqdm.notebook import tqdm\nimport gc")
    first = kernel.check(cell)

    ran = kernel.check("bar.update(1)\nbar.set_description('here')\nbar.refresh()\nbar.close()\nprint(bar.n)")
    assert ran.stdout == "4\n"
    drawn = [one for one in ran.displays if one["update"] and "text/html" in one]
    shown = {one["transient"]["display_id"] for one in first.displays if "made there" in one.get("text/html", "")}
    assert {one["transient"]["display_id"] for one in drawn} == shown
    assert 'value="4" max="4"' in drawn[-1]["text/html"] and "here" in drawn[-1]["text/plain"]

    kernel.check(cell)
    kernel.check("bar.reset()")
    again = kernel.check(f"{cell}\ndel bar")
    assert "Error" not in again.stderr + kernel.check("import gc; gc.collect()").stderr
    kernel.check("own = tqdm(range(3), colour='red')\nfor _ in own: pass\nassert own.container.children[1].value == 3")
