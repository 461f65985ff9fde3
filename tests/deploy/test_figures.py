"""What is counted of a model's calls."""

from __future__ import annotations

from dataclasses import asdict

from jupyter_gpufit.deploy.figures import Figures
from jupyter_gpufit.jobs.live import CallFigures, Live


def test_calls_are_counted_for_a_while_and_for_good() -> None:
    figures = Figures()
    for at in range(100):
        figures.answered(at / 10, 0.001 * at)
    assert figures.calls == 100 and figures.per_second(10.0) == 10.0
    assert figures.per_second(1000.0) == 0.0
    assert figures.quantiles() == (0.050, 0.099)


def test_the_wait_is_foreseen_from_the_last_batches() -> None:
    figures = Figures()
    assert figures.wait(5) == 0.0 and figures.quantiles() is None and figures.rows is None
    figures.ran(10, 1.0)
    figures.ran(30, 1.0)
    assert figures.wait(20) == 1.0 and figures.rows == 20.0


def test_they_are_told_in_a_few_words() -> None:
    assert CallFigures(per_second=0.0).words == "0 calls/s"
    busy = CallFigures(per_second=123.4, p50=0.0021, p99=0.008, waiting=3, refused=7, late=1)
    assert busy.words == "123 calls/s, p50 2.1 ms, p99 8 ms, 3 wait, 7 were refused, 1 were late"
    assert Live.from_record(asdict(Live(calls=busy))).calls == busy
