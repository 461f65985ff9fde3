"""From a cell to its estimate, where torch is: trace it and replay the trace, or count what can be counted."""

from __future__ import annotations

import os
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...fit.ladder import environment
from ...fit.plan import Plan
from ...fit.rungs.allocator import OPTION
from ...graph import made_later
from ...graph.memory import GraphMemory
from ...graph.opening import Whole
from ...graph.travel.arrival import open_graph
from ...graph.wire import seal, split
from ...surroundings import generators, modes
from ...surroundings import travel as surroundings
from ..reckoning.allocator import replay
from ..reckoning.learned import signature
from ..reckoning.options import options_of
from ..reckoning.parts import facts_of
from ..reckoning.record import Trace
from ..reckoning.report import estimate_of
from ..reckoning.timeline import timeline
from ..tracing.closed import CountedBytes, count, estimate_without_trace
from ..tracing.swept import put
from ..tracing.trace import trace_cell
from .ask import Ask, TraceAnswer
from .climb import PlanTrial, Tell, climbed, untold
from .sweep import with_values

Namespace = dict[str, object]
_SHARED = ("torch.multiprocessing", "share_memory", "ipc_collect")


def look(
    source: str,
    open_namespace: Callable[[], Namespace],
    ask: Ask,
    stop: int | None = None,
    was: Mapping[str, int] = MappingProxyType({}),
    tell: Tell = untold,
) -> TraceAnswer:
    """Estimate a cell; whatever goes wrong with it is in the answer. `stop`: see trace_cell; `was`: see Program.

    Where it does not fit within the limits that are asked for, also how it would; `tell` is told what is tried.
    """
    source = with_values(source, ask.values, was) if ask.values else source

    def trial(plan: Plan, limit: float) -> PlanTrial:
        counting = _Counting(open_namespace, source, ask.values, was)
        how = {"steps": ask.steps, "limit": limit, "stop": stop, "plan": plan, "speed": ask.speed}
        trace = trace_cell(source, counting, ask.card, sharing=ask.sharing, **how)  # type: ignore[arg-type]
        answered = _answered(ask, trace, counting, environment(plan, os.environ))
        facts = replace(facts_of(trace), idle=_idle(ask, answered), shares=_shares(source, trace))
        return PlanTrial(answered, facts, _why_useless(trace), late=trace.status == "timeout")

    return climbed(ask, trial, tell)


def _answered(ask: Ask, trace: Trace, counting: _Counting, env: Mapping[str, str]) -> TraceAnswer:
    counted, key, unread = counting.result()
    read = None if trace.cut_short else trace.read
    if not trace.changes or (trace.cut_short and not trace.steps):
        seen = replay([block.size for block in trace.blocks], trace.changes).allocated
        estimate = estimate_without_trace(counted, trace, ask.card, ask.context, seen)
        failure = trace.error if trace.status == "failed" and not trace.trained else ""
        return TraceAnswer(estimate=estimate, failure=failure, key=key, unread=unread, read=read)
    options = options_of(env)
    run = replay([block.size for block in trace.blocks], trace.changes, options)
    if ask.kind == "slot":  # no allocator of torch's own keeps memory there
        run = replace(run, reserved=run.allocated)
    estimate = estimate_of(trace, run, ask.card, ask.context, options)
    drawn, batch = timeline(trace, run), trace.largest_batch
    return TraceAnswer(estimate=estimate, timeline=drawn, key=key, unread=unread, batch=batch, read=read)


def _idle(ask: Ask, answered: TraceAnswer) -> int:
    """Bytes that an allocator whose memory grows in one piece would not keep; a CPU slot has none."""
    saved = [saving.bytes for saving in answered.estimate.shrink if saving.what.endswith(OPTION)]
    return saved[0] if saved and ask.kind != "slot" else 0


def _shares(source: str, trace: Trace) -> bool:
    return any(word in source for word in _SHARED) or any("process" in note for note in trace.notes)


def _why_useless(trace: Trace) -> str:
    """Why nothing follows from a trial run under a plan; empty: it was as good as one without."""
    if trace.status in ("failed", "died") or not trace.steps:
        return trace.what_went_wrong or "it made no step"
    return ""


class _Counting:
    """Opens the variables in the forked child, and tells us through a pipe what was among them.

    The count is needed only when the trace fails, and then there may be nobody left to ask.
    """

    def __init__(
        self,
        open_namespace: Callable[[], Namespace],
        source: str,
        values: Mapping[str, int],
        was: Mapping[str, int],
    ) -> None:
        self._open, self._source, self._values, self._was = open_namespace, source, values, was
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)

    def __call__(self) -> Namespace:
        namespace = self._open()
        unread = put(self._source, namespace, self._values, self._was) if self._values else ()
        os.write(self._write, pickle.dumps((_counted(namespace), _key(self._source, namespace), unread)))
        return namespace

    def result(self) -> tuple[CountedBytes, str, tuple[str, ...]]:
        """The models' bytes, the cell's key, and the names among the asked ones that nothing reads."""
        try:
            found: tuple[CountedBytes, str, tuple[str, ...]] = pickle.loads(os.read(self._read, 1 << 16))
        except BlockingIOError:
            return CountedBytes(), "", ()
        return found

    def __del__(self) -> None:
        os.close(self._read)
        os.close(self._write)


def _key(source: str, namespace: Namespace) -> str:
    try:
        return signature(source, namespace)
    except SyntaxError:
        return ""  # the trace will say so


def _counted(namespace: Namespace) -> CountedBytes:
    try:
        return count(namespace.values())
    except Exception:  # of a user's own module or optimizer: the trace may go well all the same
        return CountedBytes()


def opened_privately(graph: bytes, memory: GraphMemory, namespace: Namespace) -> Namespace:
    """A shipment's variables; whatever is done to them stays in this process, also to what is mapped from a file."""
    header, stream = split(graph)
    header["files"] = [(path, False) for path, _ in header["files"]]
    open_graph(seal(header, stream), Whole(memory, private=True), namespace, namespace)
    modes.arrived(namespace)
    surroundings.arrived(namespace)
    made_later.make_all()
    generators.arrived(namespace)  # last: modules were imported, and some draw numbers then
    return namespace


def main_module(**names: object) -> Namespace:
    """A new `__main__`, where the cell's or script's own classes look for themselves."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    vars(module).update(names)
    return vars(module)
