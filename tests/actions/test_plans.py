"""What runs were predicted to take stands beside what they took: `gpufit history --plans`."""

from __future__ import annotations

from jupyter_gpufit.actions.plans import table_of
from jupyter_gpufit.estimate.reckoning.learned import Lesson
from jupyter_gpufit.units import GiB

NOW = 1_750_000_000.0
RUN = Lesson(
    key="k",
    time=NOW - 3600,
    kind="gpu",
    card="NVIDIA A100",
    job="j1",
    name="bert",
    plan="recomputing 9 of 12 blocks",
    estimated=20 * GiB,
    measured=16 * GiB,
    predicted_seconds=0.5,
    step_seconds=0.6,
)


def test_both_are_in_the_row_of_a_run_and_how_far_off_it_was_below() -> None:
    heads, row, _, summed = table_of([RUN], NOW).splitlines()

    assert heads.split("  ")[0] == "when" and heads.count("predicted") == heads.count("measured") == 2
    places = [heads.index(head) for head in ("peak, predicted", "measured", "a step, predicted")]
    places.append(heads.rindex("measured"))
    found = [row[at:].split("  ")[0].strip() for at in places]
    assert found == ["20.0 GiB", "16.0 GiB", "500 ms", "600 ms"], row
    assert "bert" in row and row.endswith("recomputing 9 of 12 blocks")
    assert summed == "Of 1 run: half of the peaks were within 25 % of the estimate; steps took 1.2x what was predicted."


def test_a_run_that_ran_out_says_so_and_counts_for_no_mean() -> None:
    out = Lesson(key="k", time=NOW, kind="slot", card="slot", job="j2", measured=GiB, estimated=GiB // 2, ran_out=True)
    table = table_of([RUN, out], NOW)

    assert "1.0 GiB, ran out" in table and "CPU slot" in table
    assert "within 25 % of the estimate" in table
    assert table_of([], NOW) == "No run that was estimated has ended yet."
