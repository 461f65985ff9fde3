"""The largest value of a name that fits: as the cell is and, where the data allows more, by each rung."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from ...errors import BadOption
from ...settings import FITS
from . import sweep
from .told import Show, Told

FIRST = 8  # of the values that are tried
# The rungs that change no bit. What changes them computes a batch in parts, and any batch has parts that fit.
RUNGS = tuple(name for name in FITS if name not in ("exact", "any", "no", "micro-batches"))
_Ask = Callable[[dict[str, int], str], Awaitable[Told]]  # the cell with these values, by all that a rung can do


@dataclass(frozen=True)
class LargestSearch:
    """One `--max-batch`."""

    name: str
    room: int  # bytes
    ask: _Ask
    show: Show

    async def run(self, fit: str) -> None:
        """Each answer as it comes; the largest of each way is shown once more, as such."""
        known: dict[int, Told] = {}
        value: int | None = FIRST
        pairs: list[tuple[int, int]] = []
        while value is not None:
            known[value] = await self.ask({self.name: value}, "")
            self.show(known[value])
            if self._ends_with_the_data(known, _need(known[value])):
                return
            in_vain = _in_vain(known)
            pairs = [(tried, _need(told)) for tried, told in known.items() if tried not in in_vain]
            value = sweep.next_value(pairs, self.room, in_vain)
        if best := sweep.largest(pairs, self.room):
            self.show(replace(known[best], largest=True))
        for rung in RUNGS if fit in ("exact", "any") else {fit} & {*RUNGS}:
            await self._by(rung, [pair for pair in pairs if pair[0] == best])

    def _ends_with_the_data(self, known: Mapping[int, Told], need: int) -> bool:
        """Whether the last of them gave all of the data at once and fits: a larger one changes nothing."""
        all_data = sweep.of_all_data({tried: told.answer.batch for tried, told in known.items()})
        if not all_data or need > self.room:
            return False
        values = ((self.name, all_data),)
        self.show(replace(known[max(known)], values=values, largest=True, all_data=True))
        return True

    async def _by(self, rung: str, as_it_is: list[tuple[int, int]]) -> None:
        """`as_it_is`: the largest that fits without it, with its need. Roughly: each try takes two trial runs."""
        known: dict[int, Told] = {}
        pairs: list[tuple[int, int]] = []
        value: int | None = max([FIRST, *(2 * value for value, _ in as_it_is)])
        while value is not None:
            told = known[value] = await self.ask({self.name: value}, rung)
            self.show(told)
            step = told.by
            if step is None or step.need is None:  # it can do nothing here
                return
            if self._ends_with_the_data(known, step.need):
                return
            # One that is larger than all of the data is one of that.
            all_data = sweep.of_all_data({tried: told.answer.batch for tried, told in known.items()})
            pairs = [(min(tried, all_data or tried), self._needs(told)) for tried, told in known.items()]
            if not sweep.largest(pairs, self.room):
                pairs = [*as_it_is, *pairs]
            value = sweep.next_value(pairs, self.room, how=sweep.ROUGH)
        if (best := sweep.largest(pairs, self.room)) in known:
            self.show(replace(known[best], largest=True))

    def _needs(self, told: Told) -> int:
        step = told.by
        assert step is not None and step.need is not None
        return step.need if step.fits else max(step.need, self.room + 1)


def _in_vain(known: Mapping[int, Told]) -> set[int]:
    """The values that train nothing where others do: the data has not so many samples, and `drop_last` drops them."""
    steps = {value: told.answer.estimate.steps for value, told in known.items()}
    return {value for value, made in steps.items() if not made} if any(steps.values()) else set()


def _need(told: Told) -> int:
    estimate = told.answer.estimate
    if estimate.need is None:
        raise BadOption(f"The largest value cannot be searched for: {estimate.reasons[0]}.")
    return estimate.need
