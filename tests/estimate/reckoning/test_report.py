from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jupyter_gpufit.devices.cards import Context, find_card
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.reckoning.allocator import Replay, replay
from jupyter_gpufit.estimate.reckoning.margins import margin_of
from jupyter_gpufit.estimate.reckoning.record import Change, Trace, TracedStorage
from jupyter_gpufit.estimate.reckoning.report import Estimate, estimate_of
from jupyter_gpufit.estimate.reckoning.timeline import bars, timeline
from jupyter_gpufit.estimate.reckoning.verdict import fit_of, verdict_on, verdicts
from jupyter_gpufit.estimate.showing import text
from jupyter_gpufit.estimate.tracing.closed import CountedBytes, estimate_without_trace
from jupyter_gpufit.lab.place import Room, Space, Taken
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB

from ..traces import block, step_trace

CARD = find_card("NVIDIA A100-SXM4-40GB").card
CONTEXT = Context(512 * MiB, 1024 * MiB, "published values")
TRACE = step_trace(4 * GiB, parameters=500 * MiB)


def run_of(trace: Trace) -> Replay:
    return replay([one.size for one in trace.blocks], trace.changes)


def estimated(trace: Trace = TRACE, context: Context = CONTEXT) -> Estimate:
    return estimate_of(trace, run_of(trace), CARD, context)


def test_the_kinds_add_up_to_what_is_expected() -> None:
    estimate = estimated()

    assert sum(estimate.by_kind.values()) == estimate.expected == estimate.peak_reserved + 512 * MiB
    assert estimate.by_kind["activations"] == 4 * GiB
    assert estimate.by_kind["parameters"] == 500 * MiB


def test_the_need_lies_within_the_band() -> None:
    estimate = estimated()

    assert estimate.high is not None and estimate.need is not None
    assert estimate.low <= estimate.need <= estimate.high
    assert estimate.need == round(estimate.capacity * 1.05) + 512 * MiB


def test_the_closed_form_is_below_the_estimate() -> None:
    assert estimated().closed_form == 4 * 500 * MiB  # parameters, gradients, two moments
    assert estimated().closed_form < estimated().peak_allocated


def test_a_context_that_was_measured_widens_no_band() -> None:
    unmeasured, measured = estimated(), estimated(context=Context(512 * MiB, 512 * MiB, "measured"))

    assert unmeasured.high is not None and measured.high is not None
    assert unmeasured.high - measured.high == 512 * MiB
    assert any("context" in reason for reason in unmeasured.reasons)
    assert not any("context" in reason for reason in measured.reasons)


def test_offers_what_saves_most_first() -> None:
    sizes = [saving.bytes for saving in estimated().shrink]
    by_words = {saving.what: saving.bytes for saving in estimated().shrink}

    assert sizes == sorted(sizes, reverse=True)
    assert by_words["recomputing activations (torch.utils.checkpoint around each layer)"] == 3 * GiB
    assert by_words["keeping the optimizer's state on the host"] == 1000 * MiB


def test_offers_no_recomputation_without_repeated_layers() -> None:
    flat = replace(TRACE, blocks=tuple(replace(one, module="model") for one in TRACE.blocks))

    assert not any("recomputing" in saving.what for saving in estimated(flat).shrink)


@pytest.mark.parametrize(
    ("change", "margin", "confidence", "words"),
    [
        ({}, 0.05, "high", ""),
        ({"status": "stopped"}, 0.15, "medium", "what comes after it was not seen"),
        ({"steps": 1}, 0.15, "medium", "one optimizer step"),
        ({"steps": 0}, 0.15, "medium", "no optimizer step"),
        ({"notes": {"upper bound: mask": 3}}, 0.15, "medium", "3 times"),
        ({"notes": {"value guessed for .item()": 1}}, 0.05, "high", ".item()"),
        ({"notes": {"files written to a scratch directory": 1}}, 0.05, "high", "files"),
        ({"notes": {"weights under autocast": 1}}, 0.18, "high", "autocast"),
        ({"notes": {"grouped convolutions": 1}}, 0.21, "high", "grouped"),
        ({"notes": {"the cell means to train, and made no step": 1}}, 0.15, "low", "made no step"),
        ({"status": "failed", "error": "EOFError", "steps": 2}, 0.15, "medium", "after the steps"),
        ({"status": "died", "error": "SIGABRT ended it", "steps": 1}, 0.15, "low", "before its second step"),
        ({"notes": {"cudnn.benchmark is on": 1}}, 0.35, "low", "cudnn.benchmark"),
        ({"notes": {"loops of f() not cut: its source is not known": 1}}, 0.05, "medium", "f()"),
    ],
)
def test_each_doubt_has_its_margin(change: dict[str, object], margin: float, confidence: str, words: str) -> None:
    found = margin_of(replace(TRACE, **change))  # type: ignore[arg-type]

    assert (found.share, found.confidence) == (margin, confidence)
    assert words in " ".join(found.reasons)


def test_convolutions_and_differing_batches_widen_the_margin() -> None:
    with_conv = replace(TRACE, blocks=(*TRACE.blocks, replace(block(1), op="convolution")))
    batches = tuple(block(size * MiB, "input", step=step) for step, size in ((0, 1), (1, 5), (2, 6)))
    differing = replace(TRACE, blocks=(*TRACE.blocks, *batches))

    assert margin_of(with_conv).share == 0.15
    assert margin_of(differing).confidence == "medium"


def test_says_the_number_with_its_band() -> None:
    said = text.line(estimated())

    assert said == "peak 6.5 GiB (6.5–7.3) on NVIDIA A100-SXM4-40GB (40.0 GiB)"


def test_the_table_is_in_the_order_of_size_and_sums_up() -> None:
    lines = text.table(estimated()).splitlines()

    assert lines[0].split() == ["activations", "4.0", "GiB", "62", "%"]
    assert lines[-1].split() == ["together", "6.5", "GiB"]


def test_says_where_it_fits() -> None:
    free, half, small = (fake_device(str(i), label=str(i), total=size * GiB) for i, size in enumerate((40, 40, 7)))
    held = Room(Space(half), (Taken(34 * GiB, False),))
    found = verdicts(estimated(), [Room(Space(free)), held, Room(Space(small))])

    assert [verdict.fit for verdict in found] == ["fits now", "fits when idle", "tight"]
    assert text.where_it_fits(found) == "fits on GPU 0 now, on GPU 1 when idle, tight on GPU 2"


def test_does_not_fit_below_the_band_or_where_something_is_wrong() -> None:
    assert fit_of(estimated(), Room(Space(fake_device(total=4 * GiB)))) == "does not fit"
    assert fit_of(estimated(), Room(Space(fake_device(problem="lost")))) == "does not fit"
    assert verdict_on(replace(estimated(), card_total=4 * GiB)) == "does not fit"
    assert verdict_on(estimated()) == "fits when idle"


def test_the_picture_shows_the_fullest_step_with_its_peak() -> None:
    line = timeline(TRACE, run_of(TRACE))

    assert line.most == run_of(TRACE).allocated
    assert sum(line.moments[line.peak].values()) == line.most
    drawn = bars(line).splitlines()
    assert drawn[0].startswith("6.0 GiB │")
    assert any("▲ peak" in row for row in drawn)
    assert drawn[-1].split() == "P parameters O optimizer state G gradients A activations T temporaries".split()


def test_the_bars_of_a_full_column_reach_the_top_and_no_further() -> None:
    line = timeline(TRACE, run_of(TRACE))
    rows = [row.split("│")[1] for row in bars(line).splitlines() if "│" in row]

    assert rows[0][line.peak] != " "
    assert all(len(row) <= len(line.moments) for row in rows)


def test_nothing_is_drawn_of_nothing() -> None:
    assert bars(timeline(Trace("completed"), Replay())) == ""


def test_without_a_trace_only_the_lower_bound_is_said() -> None:
    counted = CountedBytes(parameters=1 * GiB, trainable=1 * GiB, states=2)
    estimate = estimate_without_trace(counted, Trace("timeout", where="line 3 of the cell", seconds=20), CARD, CONTEXT)

    assert (estimate.how, estimate.confidence) == ("closed form", "low")
    assert estimate.need is None and estimate.high is None
    assert estimate.low == 4 * GiB + 512 * MiB
    assert "at least 4.5 GiB" in text.line(estimate)
    assert "line 3 of the cell" in text.line(estimate)
    assert verdict_on(estimate) == "cannot tell"


def test_without_trace_and_models_it_says_that_it_cannot_tell() -> None:
    estimate = estimate_without_trace(CountedBytes(), Trace("died"), CARD, CONTEXT)

    assert estimate.how == "nothing"
    assert "cannot tell" in text.line(estimate)


def test_of_a_cell_without_a_gpu_it_says_that_and_what_was_not_seen() -> None:
    trace = Trace("failed", "Traceback (most recent call last):\nIndexError: empty", steps=2)
    estimate = estimate_without_trace(CountedBytes(), trace, CARD, CONTEXT)

    assert text.line(estimate) == "this cell uses no GPU"
    assert "the trial run ended: IndexError: empty" in text.details(estimate)
    assert "no model" not in text.details(estimate) and "uses no GPU" not in text.details(estimate)


def test_survives_the_way_between_processes() -> None:
    estimate = estimated()
    answer = TraceAnswer(estimate=estimate, timeline=timeline(TRACE, run_of(TRACE)), key="k")
    ask = Ask(card=CARD, context=CONTEXT, values={"batch": 3})

    assert TraceAnswer.decode(answer.encode()) == answer
    assert Ask.decode(ask.encode()) == ask
    assert Estimate.from_record(json.loads(estimate.to_json())) == estimate


def test_json_has_the_keys_that_programs_were_promised() -> None:
    promised = (
        "peak_allocated peak_reserved context need low high by_kind confidence reasons flops_per_step"
        " peak_module closed_form shrink steps seconds"
    )
    assert set(promised.split()) <= set(json.loads(estimated().to_json()))


def test_a_block_that_is_freed_leaves_the_table() -> None:
    blocks: tuple[TracedStorage, ...] = (block(100 * MiB, "parameter"), block(50 * MiB), block(80 * MiB))
    changes = (Change(0, True), Change(1, True), Change(1, False), Change(2, True))
    found = estimated(Trace("stopped", steps=2, blocks=blocks, changes=changes)).by_kind

    assert found["activations"] == 80 * MiB
