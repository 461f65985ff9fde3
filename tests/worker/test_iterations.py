"""Where no optimizer steps, the iterations of the cell's loops are its steps."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from jupyter_gpufit.jobs.live import Progress
from jupyter_gpufit.worker.iterations import Iterations
from jupyter_gpufit.worker.loops import Loop, Nest
from jupyter_gpufit.worker.steps import StepCounter

EPOCH, BATCH, LAYER, OTHER = ("cell", 1), ("cell", 2), ("cell", 3), ("cell", 4)


def at(key: tuple[str, int], behind: int, whole: int) -> Loop:
    return Loop(key, whole - behind - 1, whole)


def followed(nests: Iterable[Nest], counted: Iterations | None = None, step: int = 0) -> list[tuple[int, int | None]]:
    """Steps and their total, as told at each look."""
    counted, told = counted or Iterations(), []
    for nest in nests:
        step = counted.take(nest, step)
        progress = counted.told(Progress(step=step), step)
        told.append((progress.step, progress.total))
    return told


def test_a_loop_over_a_range_is_counted_whatever_runs_inside() -> None:
    looks = [(at(EPOCH, 7 * n, 1000), at(LAYER, n % 6, 6)) for n in range(5)]
    assert followed(looks) == [(0, None), (7, 1000), (14, 1000), (21, 1000), (28, 1000)]


def test_of_slow_epochs_the_batches_are_counted() -> None:
    looks = [(at(EPOCH, n // 5, 10), at(BATCH, 20 * (n % 5), 100)) for n in range(10)]
    told = followed(looks)
    assert told[0] == (0, None) and told[2:4] == [(40, 1000), (60, 1000)] and told[-1] == (180, 1000)


def test_a_loop_inside_that_changes_is_no_epochs_loop() -> None:
    looks = [(at(EPOCH, 0, 10), at((LAYER, BATCH)[n % 2], 1, 3)) for n in range(6)]
    assert followed(looks) == [(0, None)] * 6


def test_between_two_epochs_the_steps_stay() -> None:
    inside = [(at(EPOCH, 0, 10), at(BATCH, n, 100)) for n in range(4)]
    assert followed([*inside, (at(EPOCH, 1, 10),), (at(EPOCH, 1, 10), at(BATCH, 5, 100))])[-3:] == [
        (3, 1000),
        (3, 1000),
        (105, 1000),
    ]


def test_a_second_loop_goes_on_counting() -> None:
    first, second = [(at(EPOCH, n, 5),) for n in range(5)], [(at(OTHER, n, 50),) for n in range(3)]
    assert [step for step, _ in followed([*first, (), *second])] == [0, 1, 2, 3, 4, 4, 4, 5, 6]
    assert followed([*first, *first])[-1][0] == 8  # the very loop once more


def test_from_a_checkpoint_it_goes_on() -> None:
    assert followed([(at(EPOCH, n, 1000),) for n in (401, 408)], step=400) == [(401, None), (408, 1000)]
    assert followed([(at(EPOCH, n, 1000),) for n in (1, 8)], step=400) == [(400, None), (407, 1399)]  # a second loop


def test_from_a_checkpoint_within_slow_epochs_no_step_is_counted_twice() -> None:
    looks = [(at(EPOCH, 4, 10), at(BATCH, 50 + 2 * n, 100)) for n in range(5)]
    assert followed(looks, step=450)[-2:] == [(456, 1000), (458, 1000)]


def test_when_a_loop_over_a_range_is_over_it_is_known_how_far_it_came() -> None:
    items, counted = iter(range(1000)), Iterations()
    for _ in range(10):
        next(items)
    assert counted.take((Loop(EPOCH, 990, 1000, items),), 0) == 9
    for _ in range(10):
        next(items)
    assert counted.last(9) == 19  # it was left in its twentieth
    for _ in items:
        pass
    assert counted.last(9) == 1000
    assert counted.take((at(OTHER, 5, 50),), 9) == 1005


def test_of_a_while_its_turns_are_counted() -> None:
    turns, counted = [1], Iterations()

    def looks(*begun: int) -> Iterable[Nest]:
        for turns[0] in begun:
            yield (
                (Loop(EPOCH, None, None, turns=turns), at(LAYER, 2, 6))
                if turns[0] % 2
                else (Loop(EPOCH, None, None, turns=turns),)
            )

    assert followed(looks(1, 4, 9), counted) == [(0, None), (3, None), (8, None)]
    turns[0] = 12
    assert counted.last(8) == 12  # as many had begun when it ended
    assert followed(looks(501, 506), step=500) == [(500, None), (505, None)]  # from a checkpoint


def test_of_slow_turns_of_a_while_the_batches_are_counted() -> None:
    turns = [3]
    looks = [(Loop(EPOCH, None, None, turns=turns), at(BATCH, 20 * n, 100)) for n in range(5)]
    assert followed(looks)[-2:] == [(260, None), (280, None)]


def test_a_while_inside_is_part_of_an_iteration() -> None:
    looks = [(at(EPOCH, n, 10), Loop(BATCH, None, None, turns=[9 * n])) for n in range(5)]
    assert followed(looks)[-1] == (4, 10)


def test_optimizers_count_where_there_are_any() -> None:
    kept = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert not StepCounter().by_loops
    del kept


def test_what_loops_did_before_an_optimizer_was_made_are_no_steps() -> None:
    counter = StepCounter()
    counter._has_optimizer = False  # as where none is there; this process may have some
    assert counter.by_loops
    counter.reached(40)
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    with counter.counting():
        torch.optim.SGD([parameter], lr=0.1).step()
    assert counter.step == 1 and not counter.by_loops
