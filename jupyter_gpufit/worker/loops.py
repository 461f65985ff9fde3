"""How much of a cell's loops is left, from the iterators that its rewritten program holds.

The length of a loop is known where its iterator tells it without being moved: ranges, lists, enumerate and zip of such,
data loaders and progress bars. Nothing of the user's own is called but `len` of a loader's data.
"""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import GEN_CREATED, getgeneratorstate
from types import GeneratorType
from typing import Any

from ..jobs.events import Lap
from ..jobs.live import Progress
from ..system.objects import module_of

WINDOW = 600.0  # seconds over which the pace is taken: an evaluation between two epochs is part of it
EVIDENCE = 600  # looks by which it is judged whether steps come at a constant rate
SLACK = 0.01  # of the iterations seen: steps and iterators are not read at one instant


@dataclass(frozen=True)
class Loop:
    """A loop that is being run."""

    key: tuple[str, int]  # of which unit, and its number there
    left: int | None  # items that its iterator has not yet given; None: not known
    whole: int | None  # items of one whole run
    range: Any = field(default=None, compare=False)  # its iterator, if it is a range's: it can be asked afterwards, too
    turns: list[int] | None = field(default=None, compare=False)  # of a `while`, those begun; afterwards, too


Nest = tuple[Loop, ...]  # outermost first


def nest_of(frames: Sequence[Any]) -> Nest:
    """The loops of these activations (program's Frames), outermost first."""
    return tuple(loop for frame in frames for loop in _loops(frame))


def ended_by_items(nest: Nest) -> Nest:
    """Less the innermost `while` loops: they are part of an iteration of what is around them."""
    while nest and nest[-1].turns is not None:
        nest = nest[:-1]
    return nest


def _loops(frame: Any) -> Iterator[Loop]:
    for number, iterator in list(frame.its.items()):
        key = frame.unit.uid, number
        if type(iterator) is list:
            yield Loop(key, None, None, turns=iterator)
            continue
        left, whole = _extent(iterator, frame.wholes.get(number))
        yield Loop(key, left, whole, iterator if type(iterator) is _RANGE else None)


def _extent(iterator: Any, ranges: int | None = None) -> tuple[int | None, int | None]:
    """What an iterator has left to give, and what it had at first; `ranges`: what its ranges had, which forget it."""
    cls = type(iterator)
    try:
        if cls in _OF_RANGES:
            return _OF_RANGES[cls](iterator, ranges)
        return _EXTENTS.get(_name(cls), _unknown)(iterator)
    except Exception:  # a loader whose data has no length, an object half made
        return None, None


def _name(cls: type) -> str:
    return cls.__name__ if module_of(cls) in _MODULES else ""


def _unknown(iterator: Any) -> tuple[int | None, int | None]:
    return None, None


def _of_range(iterator: Any, before: int | None) -> tuple[int | None, int | None]:
    if sys.version_info >= (3, 12):
        return iterator.__length_hint__(), before
    _, (whole,), _ = iterator.__reduce__()
    return iterator.__length_hint__(), len(whole)


def _of_sequence(iterator: Any) -> tuple[int | None, int | None]:
    return iterator.__length_hint__(), len(iterator.__reduce__()[1][0])


def _of_hint(iterator: Any) -> tuple[int | None, int | None]:
    return iterator.__length_hint__(), None


def _of_enumerate(iterator: Any, ranges: int | None) -> tuple[int | None, int | None]:
    return _extent(iterator.__reduce__()[1][0], ranges)


def _of_zip(iterator: Any, ranges: int | None) -> tuple[int | None, int | None]:
    extents = [_extent(one, ranges) for one in iterator.__reduce__()[1]]
    lefts, wholes = ([one for one in column if one is not None] for column in zip(*extents, strict=True))
    return min(lefts) if len(lefts) == len(extents) else None, min(wholes) if len(wholes) == len(extents) else None


def _of_loader(iterator: Any) -> tuple[int | None, int | None]:
    whole = len(iterator._index_sampler)
    return max(0, whole - iterator._num_yielded), whole


def _of_remembering(iterator: Any) -> tuple[int | None, int | None]:
    """Of checkpoint.loaders, for a loader with workers; one that was saved starts when it is first used."""
    position, whole = iterator._memory.position, len(iterator)
    return max(0, whole - (iterator._num_yielded if position is None else position.yielded)), whole


def _of_generator(iterator: GeneratorType[Any, Any, Any]) -> tuple[int | None, int | None]:
    """A progress bar's, which counts for itself: an item once the next one is asked for."""
    code, frame = iterator.gi_code, iterator.gi_frame
    if code.co_name != "__iter__" or f"{os.sep}tqdm{os.sep}" not in code.co_filename or frame is None:
        return None, None
    from ..system.variables import read

    found = read(frame, {"self", "n"})
    whole, given = found["self"].total, 0
    if getgeneratorstate(iterator) != GEN_CREATED and (given := found.get("n", -1)) < 0:
        return None, None  # one that is switched off counts nothing
    if iterator.gi_suspended:
        given += 1
    return (None, None) if whole is None else (max(0, int(whole) - int(given)), int(whole))


_MODULES = ("builtins", "torch.utils.data.dataloader", "jupyter_gpufit.snapshot.kinds.loaders")
_EXTENTS = {
    "list_iterator": _of_sequence,
    "tuple_iterator": _of_sequence,
    "dict_keyiterator": _of_hint,
    "dict_itemiterator": _of_hint,
    "dict_valueiterator": _of_hint,
    "generator": _of_generator,
    "_SingleProcessDataLoaderIter": _of_loader,
    "_MultiProcessingDataLoaderIter": _of_loader,
    "RememberingIter": _of_remembering,
}
_RANGE = type(iter(range(0)))
_OF_RANGES: dict[type, Callable[[Any, int | None], tuple[int | None, int | None]]] = {
    _RANGE: _of_range,
    enumerate: _of_enumerate,
    zip: _of_zip,
}


@dataclass
class Laps:
    """Counts the items of the outermost loop, where others run in it: its epochs, to most people.

    A loop that goes on by more than one item from look to look is too quick to be worth a mark, and never has any.
    """

    _key: tuple[str, int] | None = None
    _number: int = 0
    _quick: bool = False

    def take(self, step: int, nest: Nest) -> Lap | None:
        """The item that it has come to since the look before."""
        if len(nest) < 2 or (outer := nest[0]).left is None or outer.whole is None:
            return None
        number, before = outer.whole - outer.left, self._number
        if outer.key != self._key or number < before:  # another loop, or this one again
            before = 0 if number == 1 else number  # after a resume, when this item began was told before
            self._key, self._quick = outer.key, False
        self._number = number
        self._quick = self._quick or number > before + 1
        return None if self._quick or number == before or number < 1 else Lap(step, number, outer.whole)


@dataclass
class Course:
    """Follows a job's loops from look to look, and says how far it is.

    A total is told only of loops that all have a known length and take a step in every iteration, or in every so many
    of them; else none is: a wrong one is worse.
    """

    _main: tuple[tuple[str, int], ...] = ()  # the loops in which optimizer steps are taken, or those seen first
    _before: tuple[tuple[str, int], ...] = ()  # those of the look before
    _wholes: dict[tuple[str, int], int] = field(default_factory=dict)  # where an iterator tells it
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)  # time, iterations left, steps
    _seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=EVIDENCE))  # iterations left, steps
    _step: int = 0
    _total: int | None = None
    _usual: int = 0  # steps between the reading of the steps and that of the loops

    def take(self, now: float, step: int, nest: Nest, per_second: float | None, drift: int = 0) -> Progress:
        """Take in what the loops are now; `per_second` is the pace of the optimizer's steps.

        `drift`: steps that were taken between the reading of `step` and that of the loops. On a busy machine some looks
        have many, which would say for minutes that steps do not come at a constant rate.
        """
        self._usual = min(drift, 2 * self._usual + 1)
        torn = drift > 2 * self._usual + 2
        for loop in nest:
            if loop.whole is not None:
                self._wholes[loop.key] = loop.whole
        known = _known(nest)
        stepped, self._step = step != self._step, step
        keys = tuple(loop.key for loop in known)
        same, self._before = keys == self._before, keys
        if keys and keys != self._main and ((stepped and same) or not self._main) and not _is_part(keys, self._main):
            self._main, self._total = keys, None
            self._marks.clear()
            self._seen.clear()
        iterations = self._iterations_left(known)
        if iterations is not None and len(known) == len(nest):  # else a part of the loops has no known length
            self._mark(now, iterations, step)
            if not torn:
                self._seen.append((iterations, step))
                self._total = self._total_steps()
        if self._total is not None and self._total < step:
            self._total = None
            self._seen.clear()
        return Progress(step=step, per_second=per_second, total=self._total, left=self._seconds(now, step))

    def _iterations_left(self, nest: Nest) -> int | None:
        """Of the innermost loop in which steps are taken, all runs of it together; None if that is not certain."""
        here = {loop.key: loop.left for loop in nest}
        left, run = 0, 1  # iterations left; iterations of one run of what is inside
        for number, key in reversed([*enumerate(self._main)]):
            items = here.get(key)
            if items is None or (items and run == 0):
                return None  # it has ended or not yet begun: there is no telling which; or what is inside has no length
            left += items * run
            run *= self._wholes.get(key, 0) if number else 1
        return left if self._main else None

    def _mark(self, now: float, iterations: int, step: int) -> None:
        if self._marks and iterations > self._marks[-1][1]:
            self._marks.clear()  # the loops have begun again
            self._seen.clear()
            self._total = None
        self._marks.append((now, iterations, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()

    def _total_steps(self) -> int | None:
        (before, steps_before), (iterations, step) = self._seen[0], self._seen[-1]
        done, steps = before - iterations, step - steps_before
        if steps < 2:
            return self._total
        each = round(done / steps)  # iterations to a step
        if each > 1:  # gradients are accumulated
            run = self._wholes.get(self._main[-1], 0)
            if run == 0 or run % each or steps < 4 or (len(self._main) > 1 and done < run):
                return None  # not to be divided, or not yet seen for a whole run
        elif each < 1:
            return None
        ends = [taken * each + left for left, taken in self._seen]
        if max(ends) - min(ends) > max(each + 1, SLACK * done):
            return None  # not constant, or a loop was left early
        if not max(ends) <= (whole := self._whole()) and max(ends) - min(ends) < each:
            return None  # there were steps before these loops: whether the look came before this item's, is not known
        total = max(max(ends), whole) // each
        # Of the oldest looks, which are forgotten, one may have come just after a step.
        return self._total if self._total == total + 1 else total

    def _whole(self) -> int:
        """Iterations of the loops from their beginning; 0: not known."""
        return math.prod(self._wholes.get(key, 0) for key in self._main)

    def _seconds(self, now: float, step: int) -> float | None:
        if not self._marks:
            return None
        (then, before, steps_before), (latest, iterations, _) = self._marks[0], self._marks[-1]
        if self._total is not None:
            steps, remaining = step - steps_before, self._total - step
            if steps < 1 or now <= then or not remaining:
                return None  # what comes after the last step has no known length
            return max(0.1, round(remaining * (now - then) / steps, 1))
        if step or latest != now or before - iterations < 2 or now <= then or not iterations:
            return None
        return round(iterations * (now - then) / (before - iterations), 1)


def _known(nest: Nest) -> Nest:
    """The nest less its innermost loops of unknown length, which are part of an iteration; none if an outer one is."""
    while nest and nest[-1].left is None:
        nest = nest[:-1]
    return () if any(loop.left is None for loop in nest) else nest


def _is_part(keys: tuple[tuple[str, int], ...], main: tuple[tuple[str, int], ...]) -> bool:
    """Whether these are the first of the main loops: the inner ones have ended, or not yet begun."""
    return len(keys) < len(main) and main[: len(keys)] == keys
