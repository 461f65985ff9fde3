"""The rungs in the order of their cost, and a plan put around a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

from .plan import Plan, Rung
from .rungs import allocator, micro_batches, optimizer, pager, recompute, spill
from .rungs.pager import PagedBytes, Whole, watchers

__all__ = ["RUNGS", "PutAround", "allowed", "environment", "fitted", "is_paged", "moved", "watchers"]


class PutAround(Rung, Protocol):
    """A rung with what it does."""

    def around(self, part: Any) -> AbstractContextManager[None]:
        """The same for a trial run and for the run."""


RUNGS: tuple[PutAround, ...] = (  # a new one is imported, and stands here by its cost
    allocator,
    recompute,
    micro_batches,
    optimizer,
    spill,
)


def allowed(fit: str) -> tuple[PutAround, ...]:
    """The rungs that a user allows: all (any), those that change no bit (exact), or the one that is named."""
    named = tuple(rung for rung in RUNGS if rung.NAME.split()[0] == fit)
    return named or (RUNGS if fit == "any" else tuple(rung for rung in RUNGS if rung.EXACT))


def environment(plan: Plan, env: Mapping[str, str]) -> Mapping[str, str]:
    """What torch's allocator reads under a plan."""
    return allocator.environment(plan.parts, env)


@contextmanager
def fitted(plan: Plan, whole: Whole = nullcontext) -> Iterator[None]:
    """Run under a plan; of rungs that are not known here, nobody could say what they would do.

    `whole`: put around what an interrupt must not cut in half.
    """
    pager.whole, pager.last = whole, None  # a run of before is over: a process may trace or run more than one
    by_name = {rung.NAME: rung for rung in RUNGS}
    with ExitStack() as stack:
        for name, part in plan.parts.items():
            stack.enter_context(by_name[name].around(part))
        yield


def is_paged() -> bool:
    """Whether the plan that this process runs under moves bytes between device and host."""
    return pager.last is not None


def moved() -> PagedBytes:
    """What the plan that this process runs under has moved between device and host so far."""
    return pager.last.told() if pager.last is not None else PagedBytes()
