"""Every plan of a model: what a trial run says of it, what it takes when it runs, and which one the planner chooses."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from common import package_root, show_table
from fit_ledger import counted, predicted, traced

package_root()

from jupyter_gpufit.devices.speeds import TYPICAL, DeviceSpeed  # noqa: E402 - needs the path above
from jupyter_gpufit.estimate.reckoning.margins import margin_of  # noqa: E402
from jupyter_gpufit.estimate.reckoning.parts import facts_of  # noqa: E402
from jupyter_gpufit.estimate.reckoning.record import Trace  # noqa: E402
from jupyter_gpufit.fit.ladder import RUNGS, PutAround, allowed  # noqa: E402
from jupyter_gpufit.fit.plan import Climbed, Facts, FitLimits, Plan, TriedPlan, climb  # noqa: E402
from jupyter_gpufit.units import MiB  # noqa: E402

MODELS = ("Dense", "Words", "Pictures")
ROOMS = (0.9, 0.75, 0.6, 0.45, 0.3, 0.2)  # of the peak as it is
FIRST = "a typical link"
SPEEDS = {FIRST: TYPICAL, "a quick link": replace(TYPICAL, link=400e9)}

Say = Callable[[str], None]
Keep = Callable[[list[dict[str, Any]]], None]  # what was found so far


def predictions(say: Say, keep: Keep, *, quick: bool) -> dict[str, Any]:
    """Predicted against counted, of each rung with half of what it can do and all of it."""
    rows: list[dict[str, Any]] = []
    for model in MODELS[: 1 if quick else None]:
        plain, bits = traced(model, Plan()), ""
        for plan in _halves(facts_of(plain)):
            trace, ran = traced(model, plan) if plan.parts else plain, counted(model, plan)
            bits = bits or ran["bits"]
            row = {
                "model": model,
                "plan": plan.words,
                "predicted": predicted(trace),
                "counted": ran["peak"],
                "error": predicted(trace) / ran["peak"] - 1,
                "predicted_slower": trace.seconds_per_step / plain.seconds_per_step,
                "on_host": [trace.on_host, ran["taken"]],
                "moved_per_step": trace.moved_per_step,
                "same_bits": ran["bits"] == bits,
                "exact": all(rung.EXACT for rung in RUNGS if rung.NAME in plan.parts),
            }
            rows.append(row)
            keep(rows)
            say(f"{model}, {plan.words}: {row['error']:+.2%}")
    errors = [abs(row["error"]) for row in rows]
    show_table(
        ("model", "plan", "predicted", "counted", "error", "time, predicted", "bits"),
        [
            (
                row["model"],
                row["plan"],
                *(f"{row[name] / MiB:.1f} MiB" for name in ("predicted", "counted")),
                f"{row['error']:+.2%}",
                f"{row['predicted_slower']:.2f}x",
                "same" if row["same_bits"] else "others",
            )
            for row in rows
        ],
    )
    print(f"error: median {statistics.median(errors):.2%}, worst {max(errors):.2%}\n")
    assert all(row["same_bits"] for row in rows if row["exact"])
    return {"rows": rows, "median_error": statistics.median(errors), "worst_error": max(errors)}


def _halves(facts: Facts) -> list[Plan]:
    """As it is, and of each rung with half of what it can do and all of it; of a steep one, its first two notches."""
    found = [Plan()]
    for rung in RUNGS:
        notches = rung.notches(facts)
        last = len(notches) - 1
        chosen = [at for at in (0, 1) if at <= last] if rung.STEEP else sorted({last // 2, last} - {-1})
        found += [Plan().under(rung, notches[at]) for at in chosen]
    return found


class Planned:
    """The trial runs of one model on a device of one speed, each made once."""

    def __init__(self, model: str, speed: DeviceSpeed) -> None:
        self.model, self.speed = model, speed
        self._traces: dict[str, Trace] = {}
        self.facts = facts_of(self.trace(Plan()))

    def trace(self, plan: Plan) -> Trace:
        if plan.words not in self._traces:
            self._traces[plan.words] = traced(self.model, plan, speed=self.speed)
        return self._traces[plan.words]

    def tried(self, plan: Plan) -> TriedPlan:
        """As a job is told of it: with the margin that its estimate has."""
        trace, low = self.trace(plan), predicted(self.trace(plan))
        slower = trace.seconds_per_step / self.trace(Plan()).seconds_per_step
        need = round(low * (1 + margin_of(trace).share))
        return TriedPlan(low, need, slower, trace.seconds_per_step, moves=trace.moved_per_step, host=trace.on_host)

    def choice(self, room: int) -> Climbed:
        climbing = climb(self.facts, self.tried(Plan()), FitLimits(room, room), allowed("exact"))
        try:
            plan = next(climbing)
            while True:
                plan = climbing.send(self.tried(plan))
        except StopIteration as end:
            found: Climbed = end.value
            return found

    def every(self, *, thin: int) -> list[Plan]:
        """Each notch of each rung alone, and on top of half and of all that a rung before it can do.

        `thin`: so many of a rung's notches at the most; 0: all.
        """
        found: list[Plan] = [Plan()]
        under: list[tuple[PutAround | None, Plan]] = [(None, Plan())]
        for rung in allowed("exact"):
            notches = rung.notches(self.facts)
            notches = notches[:: -(-len(notches) // thin)] if thin and notches else notches
            if not notches:
                continue
            plans = [
                [plan.under(rung, notch) for notch in notches]
                for below, plan in under
                if below is None or below.NAME not in rung.REPLACES
            ]
            found += [plan for column in plans for plan in column]
            under += [(rung, column[at]) for column in plans for at in {(len(column) - 1) // 2, len(column) - 1}]
        return found


def choices(say: Say, keep: Keep, *, quick: bool) -> dict[str, Any]:
    """What the planner chooses, within so much room, against trying every plan."""
    rows: list[dict[str, Any]] = []
    for model in MODELS[: 1 if quick else None]:
        peaks: dict[str, int] = {}
        for link, speed in list(SPEEDS.items())[: 2 if model == MODELS[0] and not quick else 1]:
            planned = Planned(model, speed)
            # All of them on one link; on the other one a few, since each costs a trial run.
            every = planned.every(thin=2 if quick else 0 if link == FIRST else 4)
            for number, plan in enumerate(every):
                planned.trace(plan)
                if number % 10 == 0:
                    say(f"{model}, {link}: {number} of {len(every)} plans tried")
            for share in ROOMS:
                room = round(share * planned.tried(Plan()).low)
                chosen = planned.choice(room).plan
                fitting = [tried for plan in every if ((tried := planned.tried(plan)).need or 0) <= room]
                if chosen is None:
                    rows.append({"model": model, "link": link, "room": share, "plan": None, "fit": len(fitting)})
                    continue
                if chosen.words not in peaks:
                    peaks[chosen.words] = counted(model, chosen)["peak"]
                best = min((tried.seconds for tried in fitting), default=chosen.seconds)
                row = {"model": model, "link": link, "room": share, "plan": chosen.words, "fit": len(fitting)}
                row |= {"takes": peaks[chosen.words] / room, "slower": chosen.slower, "tried": len(every)}
                rows.append(row | {"regret": chosen.seconds / best - 1})
                keep(rows)
                say(f"{model}, {link}, {share:.0%}: {chosen.words}, regret {rows[-1]['regret']:.1%}")
    made = [row for row in rows if row["plan"]]
    show_table(
        ("model", "link", "room", "chosen", "of its room, counted", "time, predicted", "regret"),
        [
            (
                *(row["model"], row["link"], f"{row['room']:.0%}", row["plan"] or "none fits"),
                *(_figures(row) if row["plan"] else 3 * ("",)),
            )
            for row in rows
        ],
    )
    ran_out = sum(row["takes"] > 1 for row in made)
    missed = sum(row["plan"] is None and row["fit"] > 0 for row in rows)
    worst = max(row["regret"] for row in made)
    print(
        f"chosen {len(made)} times; ran out {ran_out}, none found though one fits {missed}; worst regret {worst:.1%}\n"
    )
    return {"rows": rows, "ran_out": ran_out, "missed": missed, "worst_regret": worst}


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    return f"{row['takes']:.0%}", f"{row['slower']:.2f}x", f"{row['regret']:.1%}"
