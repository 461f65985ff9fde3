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
