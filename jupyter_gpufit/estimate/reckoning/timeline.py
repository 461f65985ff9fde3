"""Memory over one step, by kind: as figures for a plot, and as bars of letters; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...units import format_bytes
from .allocator import Replay
from .record import Kind, Trace
from .report import LABELS

COLUMNS, ROWS = 72, 12
AS_FULL = 0.98

# From the bottom: what stays comes first, so that what comes and goes is seen against an even ground.
ORDER: tuple[Kind, ...] = (
    "parameter",
    "buffer",
    "optimizer state",
    "gradient",
    "input",
    "workspace",
    "activation",
    "temporary",
)
LETTERS: Mapping[Kind, str] = {
    "parameter": "P",
    "buffer": "B",
    "optimizer state": "O",
    "gradient": "G",
    "input": "I",
    "workspace": "W",
    "activation": "A",
    "temporary": "T",
}


@dataclass(frozen=True)
class Timeline:
    """Bytes alive by kind at moments of the step in which the peak stands."""

    moments: tuple[Mapping[Kind, int], ...]
    peak: int  # index of the moment with the most
    backward: int | None  # index of the first moment in backward
    optimizer: int | None  # and in the optimizer's step

    @property
    def most(self) -> int:
        return max((sum(moment.values()) for moment in self.moments), default=0)


def timeline(trace: Trace, run: Replay, columns: int = COLUMNS) -> Timeline:
    """The step with the peak in so many columns; each shows its fullest moment."""
    first, last = _step_around(trace, run.peak)
    states = list(_alive(trace, first, last))
    if not states:
        return Timeline((), 0, None, None)
    cuts = sorted({round(column * len(states) / columns) for column in range(columns)} | {len(states)})
    spans = [states[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    moments = tuple(max(span, key=lambda state: sum(state.values())) for span in spans)
    heights = [sum(moment.values()) for moment in moments]
    starts = [first + cut for cut in cuts[:-1]]
    return Timeline(
        moments, heights.index(max(heights)), _begin(trace, starts, "backward"), _begin(trace, starts, "optimizer")
    )


def _step_around(trace: Trace, peak: int) -> tuple[int, int]:
    """From the first birth of the peak's step to the first of the next."""
    if peak < 0:
        return 0, 0
    step = _last_step_as_full(trace)
    births = [(index, trace.blocks[change.block].step) for index, change in enumerate(trace.changes) if change.alive]
    first = next(index for index, born in births if born == step)
    return first, next((index for index, born in births if born > step), len(trace.changes))


def _last_step_as_full(trace: Trace) -> int:
    """Of steps that are as full as the one with the peak, the last: the first has things to set up."""
    now = 0
    most: dict[int, int] = {}
    for change in trace.changes:
        block = trace.blocks[change.block]
        now += block.size if change.alive else -block.size
        most[block.step] = max(most.get(block.step, 0), now)
    return max(step for step, height in most.items() if height >= AS_FULL * max(most.values()))


def _alive(trace: Trace, first: int, last: int) -> Iterator[dict[Kind, int]]:
    now: dict[Kind, int] = dict.fromkeys(ORDER, 0)
    for index, change in enumerate(trace.changes[:last]):
        block = trace.blocks[change.block]
        now[block.kind] += block.size if change.alive else -block.size
        if index >= first:
            yield dict(now)


def _begin(trace: Trace, starts: Sequence[int], phase: str) -> int | None:
    """The first column in which something is born in this phase."""
    for column, (start, end) in enumerate(zip(starts, [*starts[1:], len(trace.changes)], strict=True)):
        born = [trace.blocks[change.block] for change in trace.changes[start:end] if change.alive]
        if any(block.phase == phase for block in born):
            return column
    return None


def bars(line: Timeline, rows: int = ROWS) -> str:
    """The timeline as text: a column of letters per moment, the peak marked below."""
    if not line.most:
        return ""
    columns = [_column(moment, line.most, rows) for moment in line.moments]
    scale = len(format_bytes(line.most))
    drawn = []
    for row in range(rows, 0, -1):
        label = format_bytes(line.most) if row == rows else ""
        drawn.append(f"{label:>{scale}} │" + "".join(column[row - 1] for column in columns).rstrip())
    drawn.append(" " * scale + " └" + "─" * len(columns))
    drawn.append(" " * (scale + 2 + line.peak) + "▲ peak")
    drawn.append(" " * scale + "  " + _phases(line))
    used = [kind for kind in ORDER if any(moment[kind] for moment in line.moments)]
    drawn.append(" " * scale + "  " + "  ".join(f"{LETTERS[kind]} {LABELS[kind]}" for kind in used))
    return "\n".join(drawn)


def _column(moment: Mapping[Kind, int], most: int, rows: int) -> str:
    """From the bottom up; each kind ends where the sum so far does, so that rounding never adds up."""
    drawn, total = "", 0
    for kind in ORDER:
        total += moment[kind]
        drawn += LETTERS[kind] * (round(total * rows / most) - len(drawn))
    return drawn.ljust(rows)


def _phases(line: Timeline) -> str:
    """The phases' names where they begin, as far as there is room."""
    signs = [" "] * len(line.moments)
    for place, word in ((0, "forward"), (line.backward, "backward"), (line.optimizer, "optimizer")):
        if (
            place is not None
            and place + len(word) <= len(signs)
            and "".join(signs[place : place + len(word)]).isspace()
        ):
            signs[place : place + len(word)] = word
    return "".join(signs).rstrip()
