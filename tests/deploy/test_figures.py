"""What is counted of a model's calls."""

from __future__ import annotations

from jupyter_gpufit.deploy.figures import Figures


def test_calls_are_counted_for_a_while_and_for_good() -> None:
    figures = Figures()
    for at in range(100):
        figures.answered(at / 10, 0.001 * at)
    assert figures.calls == 100 and figures.per_second(10.0) == 10.0
    assert figures.per_second(1000.0) == 0.0
    assert figures.quantiles() == (0.050, 0.099)


def test_the_wait_is_foreseen_from_the_last_batches() -> None:
    figures = Figures()
    assert figures.wait(5) == 0.0 and figures.quantiles() is None
    figures.ran(10, 1.0)
    figures.ran(30, 1.0)
    assert figures.wait(20) == 1.0
