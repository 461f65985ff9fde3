"""What CUDA's kernels do otherwise than fake ones, in the books."""

from __future__ import annotations

from jupyter_gpufit.estimate.reckoning.allocator import replay
from jupyter_gpufit.estimate.reckoning.record import Change
from jupyter_gpufit.estimate.tracing.entries import BookEntry
from jupyter_gpufit.estimate.tracing.hidden import in_place

OLD, NEW = 0, 1


def entries() -> list[BookEntry]:
    """Of a gradient, and of the sum that a GPU would have written into it."""
    old, new = (BookEntry(8, "backward", None, "add", "", 0) for _ in range(2))
    new.alias = [OLD]
    return [old, new]


def test_a_sum_of_gradients_is_written_into_the_first_of_them() -> None:
    events = [(OLD, True), (NEW, True), (OLD, False), (NEW, False)]

    assert in_place(events, entries()) == [(OLD, True), (OLD, False)]


def test_one_that_a_plan_sends_to_the_host_was_not_written_into() -> None:
    host_and_back = [(OLD, False), (OLD, True)]
    events = [(OLD, True), (NEW, True), *host_and_back, (OLD, False), (NEW, False)]

    assert in_place(events, entries()) == events


def test_one_that_a_plan_brings_back_is_not_born_again() -> None:
    events = [(OLD, True), (NEW, True), (NEW, False), (NEW, True), (OLD, False), (NEW, False)]

    found = in_place(events, entries())

    assert found == events
    assert replay([8, 8], [Change(*event) for event in found]).fits
