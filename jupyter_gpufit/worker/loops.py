"""How much of a cell's loops is left, from the iterators that its rewritten program holds.

The length of a loop is known where its iterator tells it without being moved: ranges, lists, enumerate and zip of such,
data loaders and progress bars. Nothing of the user's own is called but `len` of a loader's data.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

from .live import Progress

WINDOW = 600.0  # seconds over which the pace is taken: an evaluation between two epochs is part of it
SETTLED = 0.005  # a total that changes by less stays what it was


@dataclass(frozen=True)
class Loop:
    """A loop that is being run."""

    key: tuple[str, int]  # of which unit, and its number there
    left: int | None  # items that its iterator has not yet given; None: not known
    whole: int | None  # items of one whole run


Nest = tuple[Loop, ...]  # outermost first


def nest_of(frames: Sequence[Any]) -> Nest:
    """The loops of these activations (cell.resumable's Frames), outermost first."""
    return tuple(loop for frame in frames for loop in _loops(frame))


def _loops(frame: Any) -> Iterator[Loop]:
    for number, iterator in list(frame.its.items()):
        key = frame.unit.uid, number
        inside = frame.unit.paths.get(number, frozenset())
        for other in sorted(inside - frame.its.keys()):
            if _is_while(frame.unit, other):
                yield Loop((frame.unit.uid, other), None, None)
        left, whole = _extent(iterator)
        yield Loop(key, left, whole)


def _is_while(unit: Any, number: int) -> bool:
    line = unit.lines.get(number)
    return line is not None and linecache.getline(unit.filename, line).lstrip().startswith("while")


def _extent(iterator: Any) -> tuple[int | None, int | None]:
    """What an iterator has left to give, and what it had at first."""
    try:
        return _EXTENTS.get(_name(type(iterator)), _unknown)(iterator)
    except Exception:  # a loader whose data has no length, an object half made
        return None, None


def _name(cls: type) -> str:
    return cls.__name__ if cls.__module__ in ("builtins", "torch.utils.data.dataloader") else ""


def _unknown(iterator: Any) -> tuple[int | None, int | None]:
    return None, None


def _of_range(iterator: Any) -> tuple[int | None, int | None]:
    left = iterator.__length_hint__()
    if sys.version_info >= (3, 12):  # it forgets where it began; whoever watches it remembers the most
        return left, None
    _, (whole,), _ = iterator.__reduce__()
    return left, len(whole)


def _of_sequence(iterator: Any) -> tuple[int | None, int | None]:
    return iterator.__length_hint__(), len(iterator.__reduce__()[1][0])


def _of_hint(iterator: Any) -> tuple[int | None, int | None]:
    return iterator.__length_hint__(), None


def _of_enumerate(iterator: Any) -> tuple[int | None, int | None]:
    return _extent(iterator.__reduce__()[1][0])


def _of_zip(iterator: Any) -> tuple[int | None, int | None]:
    extents = [_extent(one) for one in iterator.__reduce__()[1]]
    lefts, wholes = ([one for one in column if one is not None] for column in zip(*extents, strict=True))
    return min(lefts) if len(lefts) == len(extents) else None, min(wholes) if len(wholes) == len(extents) else None


def _of_loader(iterator: Any) -> tuple[int | None, int | None]:
    whole = len(iterator._index_sampler)
    return max(0, whole - iterator._num_yielded), whole


def _of_generator(iterator: GeneratorType[Any, Any, Any]) -> tuple[int | None, int | None]:
    """A progress bar's, which counts for itself."""
    code = iterator.gi_code
    if code.co_name != "__iter__" or f"{os.sep}tqdm{os.sep}" not in code.co_filename or iterator.gi_frame is None:
        return None, None
    from .variables import read

    found = read(iterator.gi_frame, {"self", "n"})
    whole = found["self"].total
    return (None, None) if whole is None else (max(0, int(whole) - int(found.get("n", 0))), int(whole))


_EXTENTS = {
    "range_iterator": _of_range,
    "list_iterator": _of_sequence,
    "tuple_iterator": _of_sequence,
    "dict_keyiterator": _of_hint,
    "dict_itemiterator": _of_hint,
    "dict_valueiterator": _of_hint,
    "enumerate": _of_enumerate,
    "zip": _of_zip,
    "generator": _of_generator,
    "_SingleProcessDataLoaderIter": _of_loader,
    "_MultiProcessingDataLoaderIter": _of_loader,
}


@dataclass
class Course:
    """Follows a job's loops from look to look, and says how far it is."""

    _main: tuple[tuple[str, int], ...] = ()  # the loops in which optimizer steps are taken, or those seen first
    _wholes: dict[tuple[str, int], int] = field(default_factory=dict)
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)  # time, iterations left, steps
    _step: int = 0
    _total: int | None = None

    def take(self, now: float, step: int, nest: Nest, per_second: float | None) -> Progress:
        """Take in what the loops are now; `per_second` is the pace of the optimizer's steps."""
        self._remember(nest)
        nest = _known(nest)
        stepped, self._step = step != self._step, step
        keys = tuple(loop.key for loop in nest)
        if keys and keys != self._main and (stepped or not self._main) and not _is_part(keys, self._main):
            self._main, self._total = keys, None
            self._marks.clear()
        iterations = self._iterations_left(nest)
        if iterations is None:
            return Progress(step=step, per_second=per_second, total=self._total)
        self._mark(now, iterations, step)
        return Progress(
            step=step, per_second=per_second, total=self._total_steps(iterations, step), left=self._seconds(iterations)
        )

    def _remember(self, nest: Nest) -> None:
        for loop in nest:
            seen = loop.whole if loop.whole is not None else loop.left
            if seen is not None:
                self._wholes[loop.key] = max(seen, self._wholes.get(loop.key, 0)) if loop.whole is None else seen

    def _iterations_left(self, nest: Nest) -> int | None:
        """Of the innermost loop in which steps are taken, all runs of it together."""
        here = {loop.key: loop.left for loop in nest}
        if not self._main or self._main[0] not in here:
            return None
        left, run = 0, 1  # iterations left; iterations of one run of what is inside
        for key in reversed(self._main):
            items = here.get(key, 0)  # not there: it has ended, or not yet begun
            if items is None:
                return None
            left += items * run
            run *= self._wholes.get(key, 0)
        return left

    def _mark(self, now: float, iterations: int, step: int) -> None:
        if self._marks and iterations > self._marks[-1][1]:
            self._marks.clear()  # a loop of unknown length has begun again
        self._marks.append((now, iterations, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()

    def _total_steps(self, iterations: int, step: int) -> int | None:
        _, before, steps_before = self._marks[0]
        done = before - iterations
        if done < 2 or step == steps_before:
            return self._total
        per_iteration = (step - steps_before) / done
        if abs(step - steps_before - done) <= 1:
            per_iteration = 1.0  # the look came between an item and its step
        total = step + round(per_iteration * iterations)
        # By one or two it differs from look to look; a figure that trembles looks wrong.
        if self._total is None or not -max(2.0, SETTLED * total) <= total - self._total <= SETTLED * total:
            self._total = total
        return max(self._total, step)

    def _seconds(self, iterations: int) -> float | None:
        (then, before, _), now = self._marks[0], self._marks[-1][0]
        if before - iterations < 2 or now <= then:
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
