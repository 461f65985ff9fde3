"""Which values live at once."""

from __future__ import annotations

from jupyter_gpufit.models.liveness import GraphStep, Peak, peak


def test_a_chain_holds_two_values_at_a_time() -> None:
    steps = [GraphStep(("x",), ("a",)), GraphStep(("a",), ("b",)), GraphStep(("b",), ("y",))]
    assert peak(steps, {"x": 1, "a": 10, "b": 20, "y": 5}, ["x"], ["y"]) == Peak(31, 1)


def test_what_is_read_again_later_is_kept_until_then() -> None:
    steps = [GraphStep(("x",), ("a",)), GraphStep(("a",), ("b",)), GraphStep(("a", "b"), ("y",))]
    assert peak(steps, {"x": 1, "a": 10, "b": 20, "y": 5}, ["x"], ["y"]) == Peak(36, 2)


def test_what_nobody_reads_lives_for_one_step_and_answers_to_the_end() -> None:
    steps = [GraphStep(("x",), ("unread",)), GraphStep(("x",), ("y",)), GraphStep(("x",), ("z",))]
    assert peak(steps, {"x": 1, "unread": 100, "y": 5, "z": 7}, ["x"], ["y", "z"]) == Peak(101, 0)


def test_a_body_counts_where_it_runs() -> None:
    assert peak([GraphStep(("x",), ("y",), inside=50)], {"x": 1, "y": 5}, ["x"], ["y"]) == Peak(56, 0)


def test_without_a_node_the_inputs_are_all() -> None:
    assert peak([], {"x": 3}, ["x"], ["x"]) == Peak(3)
