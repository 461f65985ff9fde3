"""One `gpufit estimate`: a program started once, asked for each value, and its answers compared with devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import BadOption, CellFailedInTrial
from ...fit.plan import FitLimits
from ...fit.sharing import SPLITS, Sharing
from ...settings import Settings
from ...system.background import aside
from ..reckoning.learned import corrected, lessons, lessons_of, ran_out_under
from ..reckoning.verdict import usable_alone, verdicts
from . import sweep
from .ask import EstimatedProgram
from .search import LargestSearch
from .several import in_its_time
from .target import EstimateTarget, choose_target
from .timed import known_better, known_to_fit
from .told import Show, Told
from .tracer import Tracer, tracing


@dataclass(frozen=True, kw_only=True)
class EstimateWish:
    """What the user wants to know."""

    on: str = ""  # a card's name; empty: the devices here
    steps: int = 2
    limit: float = 120.0  # seconds for each trace
    sweep: sweep.Sweep | None = None
    max_batch: str = ""  # the name whose largest value is wanted
    gpus: tuple[int, int] = (1, 1)  # on how many devices, at least and at most

    @property
    def name(self) -> str:
        """The one that gets other values; mostly none."""
        return self.max_batch or (self.sweep.name if self.sweep else "")


MOST_COUNTS = 8  # devices, of which each number takes two trial runs


async def estimate(
    program: EstimatedProgram, wish: EstimateWish, settings: Settings, show: Show, descriptors: Sequence[int] = ()
) -> None:
    """Show each answer as it comes."""
    _check(program, wish)
    async with tracing(program, descriptors) as tracer:
        # Meanwhile the process imports torch.
        target = await aside(lambda: choose_target(settings, wish.on))
        asking = _Asking(tracer, target, wish, settings)
        if wish.max_batch:
            room = asking.target.room
            await LargestSearch(wish.max_batch, room, asking.ask, show).run(settings.fit)
        elif wish.sweep is not None:
            await asking.each(wish.sweep, show)
        else:
            show(await asking.with_several(await asking.ask({})))


@dataclass(frozen=True)
class _Asking:
    tracer: Tracer
    target: EstimateTarget
    wish: EstimateWish
    settings: Settings

    async def ask(self, values: dict[str, int], rung: str = "") -> Told:
        """`rung`: by all that this one can do."""
        target, wish = self.target, self.wish
        wanted = self.settings.fit != "no" and not values  # of many values each would take many trial runs
        fit = {"limits": self._limits() if wanted or rung else None, "fit": rung or self.settings.fit}
        ask = target.ask(wish.limit, steps=wish.steps, values=values, most=bool(rung), **fit)
        answer = await self.tracer.ask(ask)
        usable = ask.limits.usable if wanted and ask.limits else 0
        if usable and (ran_out := ran_out_under(self.settings, answer.key, target.kind, usable)):
            answer = await self.tracer.ask(ask := replace(ask, ran_out=ran_out))
        known = lessons_of(self.settings, answer.key, target.kind)
        for better_by in (known_to_fit, known_better) if wanted else ():
            if (better := better_by(answer, ask, known)) is not None:
                answer = await self.tracer.ask(ask := better)
        if answer.unread:
            raise _nothing_reads(answer.unread[0])
        if answer.failure:
            raise CellFailedInTrial(answer.failure, values)
        estimate = corrected(answer.estimate, target.kind, lessons(self.settings, answer.key))
        if answer.planned is not None and answer.climbed is not None and answer.climbed.plan is not None:
            under = lessons(self.settings, answer.key, answer.climbed.plan.words)
            answer = replace(answer, planned=corrected(answer.planned, target.kind, under))
        answer = replace(answer, estimate=estimate)
        return Told(answer, target, verdicts(estimate, target.rooms), tuple(values.items()), rung=rung)

    async def each(self, swept: sweep.Sweep, show: Show) -> None:
        """Where the cell fails with one of the values, the others are shown all the same, and then that is said."""
        failed: list[CellFailedInTrial] = []
        for value in swept.values:
            try:
                show(await self.ask({swept.name: value}))
            except CellFailedInTrial as error:
                failed.append(error)
        if failed:
            raise failed[0]

    async def with_several(self, told: Told) -> Told:
        """With what each needs of so many devices as are asked for."""
        least, most = self.wish.gpus
        plain = self.target.ask(self.wish.limit, steps=self.wish.steps, fit="no")
        counts = range(max(least, 2), most + 1)
        asks = [replace(plain, sharing=Sharing(k, split)) for k in counts for split in SPLITS]
        asks = [in_its_time(one, self.settings) for one in asks]
        return replace(told, several=tuple([(one.sharing, await self.tracer.ask(one)) for one in asks]))

    def _limits(self) -> FitLimits:
        """Of the card."""
        alone = [usable_alone(room.space) for room in self.target.rooms if room.device.name == self.target.card.name]
        return FitLimits(self.target.room, max(alone, default=self.target.card.total))


def _check(program: EstimatedProgram, wish: EstimateWish) -> None:
    name = wish.name
    if name and program.script and not sweep.uses_name(program.source, name):
        raise _nothing_reads(name)


def _nothing_reads(name: str) -> BadOption:
    return BadOption(
        f"Neither the cell nor a function, a loader or a setting that it reaches reads {name!r},"
        " so another value of it would change nothing."
    )
