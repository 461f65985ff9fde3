"""How the answers of an estimate look: in a notebook, in a terminal, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ...fit.plan import RungVerdict
from ..asking.told import Told, fit_words
from ..reckoning.timeline import bars
from ..reckoning.verdict import verdict_on
from . import text

Bundle = dict[str, Any]  # MIME types and their data


def one_line(told: Told) -> str:
    """ "batch = 16: peak 3.1 GiB (2.9–3.6) on …; fits on GPU 0 now" """
    values = ", ".join(f"{name} = {value:,}" for name, value in told.values)
    if told.by is not None:
        return _by_a_rung(told, told.by, values)
    said = text.line(told.answer.estimate)
    if told.answer.estimate.need is not None:
        said += f"; {fit_words(told)}"
    said = f"{values}: {said}" if values else said
    if told.all_data:
        return f"All of the data fits at once: {said}"
    return f"The largest that fits is {said}" if told.largest else said


def _by_a_rung(told: Told, step: RungVerdict, values: str) -> str:
    """ "The largest that fits by recomputing 4 of 4 blocks is batch = 64: needs 3.1 GiB, 1.33x the time, exact" """
    if not step.needs:
        return f"By {step.words}, no larger one: {step.why}."
    time = f"{step.slower:.2f}x the time of the same as it is"
    said = f"needs {step.needs}, {time}, {'exact' if step.exact else 'not exact'}"
    if told.all_data:
        return f"All of the data fits at once by {step.words}: {values}, {said}"
    if told.largest:
        return f"The largest that fits by {step.words} is {values}: {said}"
    return f"{values}, by {step.words}: {said if step.fits else step.why}"


def report(told: Told) -> str:
    """All of one answer, without the picture."""
    remark = [told.target.remark] * bool(told.target.remark)
    timed = told.target.kind != "slot" or told.target.speed.measured
    if told.answer.climbed is not None or (told.several and timed):
        remark.append(f"Times are for {told.target.speed.words}.")
    estimate = told.answer.estimate
    ladder = text.ladder(told.answer.climbed) if told.answer.climbed else ""
    table = "" if estimate.uses_no_gpu else text.table(estimate)
    several = text.several(estimate, [(how, one.estimate, one.failure) for how, one in told.several], timed=timed)
    parts = ["\n".join([one_line(told), *remark]), several, ladder, table, text.details(estimate)]
    return "\n\n".join(part for part in parts if part)


def terminal(told: Told) -> str:
    """All of one answer, with bars; of several, a line each."""
    if told.values:
        return one_line(told)
    drawn = bars(told.answer.timeline) if told.answer.timeline else ""
    return "\n\n".join(part for part in (report(told), drawn) if part)


def notebook(told: Told) -> list[Bundle]:
    """What a notebook displays: the text, and a figure where matplotlib is installed."""
    if told.values:
        return [{"text/plain": one_line(told)}]
    figure = _figure(told)
    return [{"text/plain": report(told) if figure else terminal(told)}, *([figure] if figure else [])]


def _figure(told: Told) -> Bundle | None:
    line, estimate = told.answer.timeline, told.answer.estimate
    if line is None or not line.most:
        return None
    try:
        from .figure import draw

        below, climbed = told.answer.planned_timeline, told.answer.climbed
        plan = climbed.plan.words if climbed is not None and climbed.plan is not None else ""
        drawn = draw(
            line,
            f"Memory over one step, estimated for {estimate.card}",
            below=(below, f"The same step by {plan}") if below is not None else None,
        )
    except ImportError:
        return None
    return {"image/svg+xml": drawn.decode(), "text/plain": bars(line)}


def to_record(told: Told) -> dict[str, Any]:
    """The estimate's own keys, and beside them what was swept and where it fits."""
    return {
        "format": 1,
        **asdict(told.answer.estimate),
        "values": dict(told.values),
        "largest": told.largest,
        "by": told.rung,
        "devices": [asdict(verdict) for verdict in told.found],
        "fit": "" if told.found else verdict_on(told.answer.estimate),
        "key": told.answer.key,
        "several": [{**asdict(how), **asdict(one.estimate)} for how, one in told.several],
        "ladder": told.answer.climbed.to_record() if told.answer.climbed else None,
    }


def json_of(all_told: list[Told]) -> str:
    """One object for one estimate, a list for several."""
    records = [to_record(told) for told in all_told]
    return json.dumps(records if any(told.values for told in all_told) else records[0], indent=1)
