"""A sample of bench/lab.py: with turns a crowded lab is fair, and nobody waits for the end of somebody's job."""

from __future__ import annotations

import pytest

from tests.lab.simulated import SimulatedLab, Way, played


def lab(way: Way) -> SimulatedLab:
    return played(way, users=10, devices=2, seconds=1500, seed=1, quantum=60)


@pytest.mark.slow
def test_turns_are_fair_and_quick() -> None:
    turns, first, grabs = lab("turns"), lab("first in, first out"), lab("who grabs first")
    assert turns.fairness() >= 0.95 > first.fairness() and grabs.fairness() < 0.95
    assert turns.figures()["never_started"] == 0
    assert turns.figures()["wait_most"] < first.figures()["wait_most"]
    assert turns.figures()["busy"] > 0.7
