"""What the rungs of the fit ladder choose by: a trace's modules, and what each keeps for backward; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...fit.plan import BY_THE_COMPILER, Facts, ModelPart
from .record import COMPILED, Trace


def facts_of(trace: Trace) -> Facts:
    """Bytes are those at the moment when most of them are kept."""
    kept = _with_all_around(_kept(trace))
    found: dict[tuple[str, str], ModelPart] = {}
    for seen in trace.modules:
        key = seen.model, seen.path
        one = ModelPart(
            name=seen.name or seen.path,
            model=seen.model,
            path=seen.path,
            order=seen.order,
            kept=kept[seen.name],
            hands_on=seen.hands_on,
            why_not=seen.why_not,
            alone=seen.alone,
            batch=seen.batch,
            by_batch=seen.by_batch,
        )
        other = found.get(key)  # of a second model that looks the same
        if other is None:
            found[key] = one
        elif one.name != other.name:
            found[key] = _together(other, one)
    return replace(_sizes(trace), parts=tuple(found.values()))


def _sizes(trace: Trace) -> Facts:
    now = peak = states = most_states = 0
    for change in trace.changes:
        block = trace.blocks[change.block]
        size = block.size if change.alive else -block.size
        now += size
        states += size if block.kind == "optimizer state" else 0
        peak, most_states = max(peak, now), max(most_states, states)
    return Facts(
        peak=peak,
        largest=max((block.size for block in trace.blocks if block.kind != "workspace"), default=0),
        states=most_states,
        largest_state=max((block.size for block in trace.blocks if block.kind == "optimizer state"), default=0),
        why_not_moved=_why_not_moved(trace),
    )


def _why_not_moved(trace: Trace) -> str:
    if COMPILED in trace.notes or any(seen.why_not == BY_THE_COMPILER for seen in trace.modules):
        return "what torch.compile makes does not tell which tensors it takes"
    return ""


def _together(one: ModelPart, other: ModelPart) -> ModelPart:
    return replace(
        one,
        kept=one.kept + other.kept,
        hands_on=one.hands_on + other.hands_on,
        why_not=one.why_not or other.why_not,
        alone=all(each.alone for each in (one, other) if each.why_not),
        batch=min(one.batch, other.batch),
    )


def _kept(trace: Trace) -> Counter[str]:
    """Bytes by the module that made them."""
    now = most = at = 0
    for number, change in enumerate(trace.changes):
        block = trace.blocks[change.block]
        if block.kind == "activation":
            now += block.size if change.alive else -block.size
            if now > most:
                most, at = now, number
    kept: Counter[str] = Counter()
    for change in trace.changes[: at + 1] if most else ():
        block = trace.blocks[change.block]
        if block.kind == "activation":
            kept[block.module] += block.size if change.alive else -block.size
    return kept


def _with_all_around(kept: Counter[str]) -> Counter[str]:
    """Each module with all that is in it."""
    found: Counter[str] = Counter()
    for name, size in kept.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            found[".".join(parts[:end])] += size
    return found
