"""An estimate as words and columns; pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...fit.plan import Climbed
from ...fit.sharing import Sharing
from ...units import GiB, MiB, device_words, format_bytes, format_duration
from ..reckoning.report import Estimate
from ..reckoning.verdict import Verdict

MOST_REASONS, MOST_SAVINGS = 6, 4


def line(estimate: Estimate) -> str:
    """One line: the number, its band and the card."""
    if estimate.uses_no_gpu:
        return estimate.reasons[0]
    if estimate.need is None:
        least = f"at least {format_bytes(estimate.low)}" if estimate.closed_form else "cannot tell how much memory"
        return f"{least} on {estimate.card}, and nobody knows how much more: {estimate.reasons[0]}"
    text = f"peak {band(estimate)} on {_card(estimate)}"
    if estimate.measured:
        text += f"; the last run took {format_bytes(estimate.measured)}"
    return text


def band(estimate: Estimate) -> str:
    """ "18.4 GiB (17.6–19.9)": in one unit, so that the figures can be compared."""
    if estimate.high is None:
        return f"at least {format_bytes(estimate.low)}"
    middle = estimate.expected
    if estimate.measured and not estimate.low <= middle <= estimate.high:
        middle = estimate.measured  # runs of this very cell have shown that it was wrong
    unit, scale = ("GiB", GiB) if middle >= GiB else ("MiB", MiB)
    places = 1 if unit == "GiB" else 0
    low, expected, high = (f"{bytes / scale:.{places}f}" for bytes in (estimate.low, middle, estimate.high))
    return f"{expected} {unit} ({low}–{high})"


def _card(estimate: Estimate) -> str:
    return f"{estimate.card} ({format_bytes(estimate.card_total)})"


def where_it_fits(found: Sequence[Verdict]) -> str:
    """ "fits on GPU 0 and 2 now, on GPU 1 when idle" in the order of how good the news is."""
    parts: list[str] = []
    for fit, form in (
        ("fits now", "fits on {} now"),
        ("fits when idle", "fits on {} when idle"),
        ("tight", "tight on {}"),
        ("does not fit", "does not fit on {}"),
        ("cannot tell", "cannot tell for {}"),
    ):
        labels = [verdict.device for verdict in found if verdict.fit == fit]
        if labels:
            part = form.format(device_words(labels))
            parts.append(part.removeprefix("fits ") if parts and part.startswith("fits") else part)
    return ", ".join(parts)


def table(estimate: Estimate) -> str:
    """Bytes by kind at the peak, the largest first, and their sum."""
    rows = sorted(estimate.by_kind.items(), key=lambda row: -row[1])
    total = sum(estimate.by_kind.values())
    together = "together, by the trial run" if estimate.measured else "together"  # the headline may know better by now
    width = max(len(name) for name in (*estimate.by_kind, together))
    drawn = [f"{name:<{width}}  {format_bytes(size):>10}  {_percent(size, total):>4}" for name, size in rows]
    return "\n".join([*drawn, f"{together:<{width}}  {format_bytes(total):>10}"])


def _percent(size: int, total: int) -> str:
    return f"{100 * size / total:.0f} %" if total else ""


def ladder(climbed: Climbed) -> str:
    """How it would fit: a line for each rung that was tried, the one that does last."""
    lines = ["How it fits:" if climbed.plan else "Nothing makes it fit:"]
    for step in climbed.steps:
        need = step.needs or "not tried"
        exact = "exact" if step.exact else "not exact"
        time = f"{step.slower:.2f}x the time"
        if step.seconds:
            time = f"{duration_of_step(step.seconds)} a step ({time})"
        if step.host:
            moves = f"{format_bytes(step.moves)} a step to the host and back"
            time = f"{time}, {moves}, {format_bytes(step.host)} of the host's memory"
        slower = "fits, and takes longer" if climbed.plan and step.words != climbed.plan.words else "fits"
        lines.append(f"- {step.words}: {need}, {time}, {exact}: {step.why or slower}")
    would_do = climbed.would_do
    return "\n".join([*lines, f"{would_do[0].upper()}{would_do[1:]}."] if would_do else lines)


def duration_of_step(seconds: float) -> str:
    """ "240 ms" """
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def several(plain: Estimate, found: Sequence[tuple[Sharing, Estimate, str]], *, timed: bool = True) -> str:
    """What each of several devices has at the peak and how long a step takes there, a line for each number of them.

    `timed`: it is known how fast they are.
    """
    if not found:
        return ""
    heads = ("devices", "how", "peak", "parameters, gradients, optimizer", "claims on each")
    rows = [(*heads, "a step, about" if timed else "")]
    for how, one, failure in [(Sharing(), plain, ""), *found]:
        if one.need is None:
            why = failure.strip().splitlines()[-1] if failure else one.reasons[0]
            rows.append((str(how.devices), how.words, "cannot tell", "", why, ""))
            continue
        held = format_bytes(one.closed_form)
        step = _step(one, plain) if timed else ""
        rows.append((str(how.devices), how.words, format_bytes(one.expected), held, format_bytes(one.need), step))
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    lines = ["  ".join([*map(str.ljust, row[:5], widths), row[5]]).rstrip() for row in rows]
    return "\n".join(["On several devices, on each of them:", *lines])


def _step(one: Estimate, plain: Estimate) -> str:
    """ "240 ms, 1.8x as fast"; empty: nobody can tell"""
    if not one.seconds_per_step:
        return ""
    faster = plain.seconds_per_step / one.seconds_per_step
    than_one = f", {faster:.2g}x as fast" if one is not plain and faster else ""
    return f"{duration_of_step(one.seconds_per_step)}{than_one}"


def details(estimate: Estimate) -> str:
    """Where the peak stands, how sure this is and why, the lower bound, and what would make it smaller."""
    return "\n".join([*_facts(estimate), *_reasons(estimate), *_savings(estimate)])


def _facts(estimate: Estimate) -> list[str]:
    found = []
    if estimate.peak_op:
        place = f"in {estimate.peak_module}" if estimate.peak_module else "outside of any module"
        found.append(f"The peak is {place} ({estimate.peak_op}).")
    if estimate.closed_form:
        found.append(f"Parameters, gradients and optimizer state alone: {format_bytes(estimate.closed_form)}.")
    if estimate.flops_per_step:
        found.append(f"{estimate.flops_per_step / 1e12:.3g} TFLOP a step{_samples(estimate)}.")
    if estimate.need is not None:
        found.append(f"A job would claim {format_bytes(estimate.need)}. Confidence: {estimate.confidence}.")
    took = format_duration(estimate.seconds)
    steps = f"{estimate.steps} optimizer step{'' if estimate.steps == 1 else 's'}"
    found.append(f"From a trial run of {steps} without a device, in {took}.")
    return found


def _samples(estimate: Estimate) -> str:
    return f", {estimate.samples_per_step:,} samples" if estimate.samples_per_step else ""


def _reasons(estimate: Estimate) -> list[str]:
    said = estimate.reasons[1:] if estimate.uses_no_gpu else estimate.reasons  # the first is the line above
    return [f"- {reason}" for reason in said[:MOST_REASONS]]


def _savings(estimate: Estimate) -> list[str]:
    shown = estimate.shrink[:MOST_SAVINGS]
    return ["What would make it smaller:"] * bool(shown) + [
        f"- {saving.what}: about −{format_bytes(saving.bytes)}" for saving in shown
    ]
