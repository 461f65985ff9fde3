"""How much of a program's loops is left: what iterators tell, and what is made of it."""

from __future__ import annotations

import ast
import io
import itertools
import linecache
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from tqdm import tqdm

from jupyter_gpufit.jobs.events import Lap
from jupyter_gpufit.jobs.live import Progress
from jupyter_gpufit.program.running.program import Program
from jupyter_gpufit.snapshot.kinds.loaders import remembered
from jupyter_gpufit.worker.loops import Course, Laps, Loop, Nest, _extent, nest_of
from jupyter_gpufit.worker.metrics import Sampler
from tests.program.crossing import World

numbers = itertools.count()


def run(source: str, look: Any, **given: Any) -> None:
    """Run a cell as a worker does; it calls look(loops)."""
    filename = f"<cell {next(numbers)} of test_loops>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"torch": torch, "DataLoader": DataLoader, "TensorDataset": TensorDataset, **given}
    program = Program(namespace)
    tree = program.cell(ast.parse(source, filename), filename)
    frames: list[Any] = []
    namespace["look"] = lambda *inner: look(nest_of([namespace["_gf_f"], *frames, *inner]))
    try:
        exec(compile(tree, filename, "exec", dont_inherit=True), namespace)
    finally:
        program.leave()


def seen(source: str) -> list[list[tuple[int | None, int | None]]]:
    """What is left and whole of each loop, at each look."""
    found: list[list[tuple[int | None, int | None]]] = []
    run(source, lambda nest: found.append([(loop.left, loop.whole) for loop in nest]))
    return found


def test_nested_ranges_and_lists() -> None:
    looks = seen("for a in range(2):\n    for b in [5, 6, 7]:\n        look()\n")
    assert looks == [[(a, 2), (b, 3)] for a in (1, 0) for b in (2, 1, 0)]


def test_a_range_has_its_length_also_where_the_cell_goes_on() -> None:
    source, found = "for a in range(4):\n    b = a\n", list[Nest]()
    saved = World().until(source, 3)
    assert isinstance(saved, bytes)
    world = World.from_saved(saved)
    world._run(source, lambda: found.append(nest_of([world.namespace["_gf_f"]])))
    assert [[(loop.left, loop.whole) for loop in nest] for nest in found] == [[(left, 4)] for left in (1, 0)]


def test_a_data_loader() -> None:
    looks = seen("loader = DataLoader(TensorDataset(torch.zeros(10, 1)), batch_size=4)\nfor x in loader:\n    look()\n")
    assert looks == [[(2, 3)], [(1, 3)], [(0, 3)]]


def test_an_enumerated_loader() -> None:
    looks = seen("for i, x in enumerate(DataLoader(TensorDataset(torch.zeros(4, 1)))):\n    look()\n")
    assert looks == [[(3 - i, 4)] for i in range(4)]


def test_zip_is_as_long_as_its_shortest() -> None:
    assert seen("for a, b in zip([1, 2], range(9)):\n    look()\n") == [[(1, 2)], [(0, 2)]]


def test_a_while_has_no_known_length_and_what_is_inside_has() -> None:
    source = "n = 0\nwhile n < 2:\n    n += 1\n    for x in range(2):\n        look()\n"
    assert seen(source) == [[(None, None), (left, 2)] for _ in range(2) for left in (1, 0)]


def test_a_generator_has_no_known_length() -> None:
    source = "def batches():\n    yield 1\n    yield 2\nfor x in batches():\n    look()\n"
    assert seen(source) == [[(None, None)]] * 2


def test_a_progress_bar() -> None:
    bar = iter(tqdm(range(5), disable=False, file=io.StringIO()))
    assert _extent(bar) == (5, 5)
    next(bar)
    next(bar)
    assert _extent(bar) == (3, 5)  # the second is being worked on: it has been given, as by every other iterator
    for _ in bar:
        pass
    silent = iter(tqdm(range(5), disable=True))
    next(silent)
    assert _extent(silent) == (None, None)


def test_data_without_a_length_is_no_failure() -> None:
    class Endless(Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return index

    assert _extent(object()) == (None, None)
    loader = DataLoader(Endless(), sampler=iter([0, 1]))
    assert _extent(iter(loader)) == (None, None)


# What is made of it ---------------------------------------------------------------------------------------------------

EPOCH, BATCH, CHECK = ("cell", 0), ("cell", 1), ("cell", 2)


def looks(epochs: int, batches: int, *, checks: int = 0) -> Iterator[tuple[int, Nest]]:
    """Of a plain training with a step in each iteration: after each iteration the steps taken, and the loops."""
    step = 0
    for epoch in range(epochs):
        outer = Loop(EPOCH, epochs - epoch - 1, epochs)
        for batch in range(batches):
            step += 1
            yield step, (outer, Loop(BATCH, batches - batch - 1, batches))
        for check in range(checks):
            yield step, (outer, Loop(CHECK, checks - check - 1, checks))


def progress(course: Course, looks: Iterator[tuple[int, Nest]]) -> list[Progress]:
    return [course.take(float(now), step, nest, 1.0) for now, (step, nest) in enumerate(looks)]


def test_a_plain_training_knows_its_total_after_a_few_looks() -> None:
    told = progress(Course(), looks(3, 10))
    assert told[0].total is None and told[0].step == 1
    assert {one.total for one in told[2:]} == {30}
    assert told[-1].left is None  # what comes after the last step has no known length
    assert told[14].left == pytest.approx(15.0)


def test_an_evaluation_between_epochs_changes_no_total() -> None:
    told = progress(Course(), looks(3, 10, checks=5))
    assert {one.total for one in told[2:]} == {30}


def test_a_look_between_the_item_and_its_step_changes_no_total() -> None:
    course = Course()
    told = [
        course.take(float(now), step - now % 2, nest, None) for now, (step, nest) in enumerate(looks(2, 20)) if now > 0
    ]
    assert {one.total for one in told[3:]} == {40}


def test_a_look_that_a_busy_machine_tore_apart_costs_no_total() -> None:
    """The steps were read, and a dozen were taken before the loops were."""
    course, told = Course(), []
    for now, (step, nest) in enumerate(looks(3, 200)):
        drift = 12 if now in (0, 20) else now % 2
        told.append(course.take(float(now), max(0, step - drift), nest, None, drift))
    assert {one.total for one in told[6:]} == {600}


def test_where_many_steps_are_always_taken_meanwhile_there_is_a_total_all_the_same() -> None:
    course = Course()
    later = [(now, *look) for now, look in enumerate(looks(3, 200)) if now > 24]
    told = [course.take(float(now), step - 25, nest, None, 25) for now, step, nest in later]
    assert {one.total for one in told[12:]} == {600}


def test_accumulation_takes_a_step_every_so_often() -> None:
    course = Course()
    told = [course.take(float(now), step // 4, nest, None) for now, (step, nest) in enumerate(looks(5, 40))]
    assert {one.total for one in told} == {None, 50} and {one.total for one in told[60:]} == {50}


def test_a_while_around_it_all_has_no_total() -> None:
    unknown = Loop(EPOCH, None, None)
    told = progress(Course(), ((step, (unknown, Loop(BATCH, 9 - step, 10))) for step in range(10)))
    assert {(one.total, one.left) for one in told} == {(None, None)}


def test_an_inner_loop_of_unknown_length_leaves_no_total() -> None:
    told = progress(Course(), ((step, (Loop(EPOCH, 9 - step, 10), Loop(BATCH, None, None))) for step in range(10)))
    assert {(one.total, one.left) for one in told} == {(None, None)}


def test_an_inner_range_that_forgets_its_length_leaves_no_total() -> None:
    """As from Python 3.12 on."""
    course = Course()
    told = progress(course, ((step, (outer, Loop(BATCH, inner.left, None))) for step, (outer, inner) in looks(3, 10)))
    assert {one.total for one in told[:20]} == {None}
    assert {one.total for one in told[20:]} <= {None, 30}  # in the last epoch nothing is inside what is left


def test_without_steps_there_is_time_left() -> None:
    told = progress(Course(), ((0, nest) for _, nest in looks(2, 10)))
    assert told[5].total is None and told[5].left == pytest.approx(14.0)


def trained(source: str, *, every: int = 1) -> list[Progress]:
    """Run a cell that calls step() for each optimizer step and look() now and then; what was told at those looks."""
    course, told, taken = Course(), [], itertools.count(1)
    steps, times, sampler = [0], itertools.count(), Sampler(threading.get_ident())

    def look(_: Nest) -> None:
        if (now := next(times)) % every == 0:
            told.append(course.take(float(now), steps[0], sampler.look().nest, 1.0))

    run(source, look, step=lambda: steps.__setitem__(0, next(taken)))
    return told


LOADER = "loader = DataLoader(TensorDataset(torch.zeros(16, 1)), num_workers={workers}, persistent_workers={stay})\n"
EPOCHS = "for epoch in range(3):\n    for x in {inner}:\n        look()\n        step()\n"


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize(("workers", "stay"), [(0, False), (1, False), (1, True)])
def test_a_loader_in_epochs_has_the_right_total_or_none(workers: int, stay: bool, every: int) -> None:
    with remembered():
        # Let go of by hand: of workers that stay, and are found as garbage, torch waits for each for 5 s.
        told = trained(
            LOADER.format(workers=workers, stay=stay) + EPOCHS.format(inner="loader") + "del loader", every=every
        )
    assert told[-1].step >= 42 and {one.total for one in told} == {None, 48}
    assert {one.total for one in told[2:]} == {48}
    assert all(one.left is None or one.left > 0 for one in told)


@pytest.mark.parametrize("every", [1, 7])
def test_a_users_generator_in_epochs_has_no_total(every: int) -> None:
    source = (
        "def batches(n):\n    for i in range(n):\n        yield i\n"
        "class Trainer:\n    def fit(self):\n"
        "        for epoch in range(3):\n            look()\n            for x in batches(30):\n"
        "                look()\n                step()\n            look()\n"
        "Trainer().fit()\n"
    )
    told = trained(source, every=every)
    assert told[-1].step >= 84 and {(one.total, one.left) for one in told} == {(None, None)}


def test_a_loop_that_is_left_early_has_no_total_for_long() -> None:
    source = "for a in range(5):\n    for b in range(20):\n        look()\n        step()\n        if b == 4: break\n"
    told = trained(source)
    assert {one.total for one in told[6:]} == {None}


def test_the_last_step_is_the_end() -> None:
    told = trained(EPOCHS.format(inner="[1, 2, 3, 4]") + "look()\n")
    assert (told[-1].step, told[-1].total, told[-1].left) == (12, 12, None)


def test_loops_that_begin_again_do_not_keep_the_total_of_before() -> None:
    told = trained("def fit():\n    for x in [1, 2, 3, 4]:\n        look()\n        step()\nfit()\nfit()\n")
    assert [one.total for one in told] == [None, None, 4, 4, None, None, None, None]  # 7 or 8


def test_steps_before_the_loops_are_in_their_total() -> None:
    told = trained("step()\nstep()\nfor x in [1, 2, 3, 4, 5]:\n    look()\n    step()\n    look()\n")
    assert (told[-1].step, told[-1].total, told[-1].left) == (7, 7, None) and {one.total for one in told} == {None, 7}


def laps(looks: list[tuple[int, int, int]], laps: Laps | None = None) -> list[Lap]:
    """Of an outermost loop with another in it: at each look its step, what is left of it, and its whole."""
    laps = laps or Laps()
    inner = Loop(("u", 1), 3, 9)
    found = (laps.take(step, (Loop(("u", 0), left, whole), inner)) for step, left, whole in looks)
    return [lap for lap in found if lap is not None]


def test_the_outermost_loop_counts_its_items() -> None:
    looks = [(0, 3, 4), (5, 3, 4), (11, 2, 4), (19, 2, 4), (22, 1, 4), (31, 0, 4)]
    assert laps(looks) == [Lap(0, 1, 4), Lap(11, 2, 4), Lap(22, 3, 4), Lap(31, 4, 4)]
    assert laps(looks[2:]) == [Lap(22, 3, 4), Lap(31, 4, 4)]  # after a resume in the middle of the second


def test_a_loop_that_is_quicker_than_the_looks_has_no_laps() -> None:
    assert laps([(2, 98, 100), (9, 91, 100), (10, 90, 100)]) == []
    batches = Loop(("u", 0), 7, 9)
    assert Laps().take(1, (batches,)) is None  # nothing runs in it
    assert Laps().take(1, (Loop(("u", 0), None, None), batches)) is None


def test_a_loop_that_runs_again_counts_anew() -> None:
    assert [lap.number for lap in laps([(1, 1, 2), (2, 0, 2), (3, 1, 2), (4, 0, 2)])] == [1, 2, 1, 2]
