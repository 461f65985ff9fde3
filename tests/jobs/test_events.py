from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_gpufit.jobs.events import (
    UNWRITABLE,
    Clear,
    CouldNotSave,
    DeviceMark,
    Display,
    Entry,
    Event,
    Failure,
    Gap,
    Lap,
    Note,
    ProgressMark,
    Result,
    Saved,
    StateChange,
    Text,
    WidgetMessage,
    decode_entry,
    encode_entry,
)
from jupyter_gpufit.jobs.protocol import PROTOCOL, Answer, WorkerRequest


@pytest.mark.parametrize(
    "event",
    [
        Text("stderr", "tqdm\r"),
        Display({"text/html": "<b>"}, {"m": 1}, {"display_id": "x"}, update=True),
        Result({"text/plain": "3"}),
        Clear(wait=True),
        Failure("ValueError", "no", ("line 1", "line 2")),
        Note("note"),
        ProgressMark(3, 10, 20),
        DeviceMark(97, 412.3),
        Lap(40, 2, 10),
        StateChange("queued", "because", "cpu:0", 2),
        Saved(3, 1204, "line 4 of the cell", "000001-000003", 100, 0.1, 0.9, "release"),
        CouldNotSave(4, "No space left on device", "automatic"),
        Gap(7, "full"),
    ],
)
def test_an_entry_reads_back_as_it_was_written(event: Event) -> None:
    entry = Entry(5, 1.5, event)
    assert decode_entry(encode_entry(entry)) == entry


def test_a_reader_passes_over_what_a_later_version_added() -> None:
    assert decode_entry(b'{"seq":1,"time":0,"kind":"hologram","shape":"cat"}') is None
    later = json.loads(encode_entry(Entry(1, 0.0, Note("hello")))) | {"colour": "red"}
    assert decode_entry(json.dumps(later).encode()) == Entry(1, 0.0, Note("hello"))


def test_a_missing_key_is_refused() -> None:
    with pytest.raises((KeyError, TypeError)):
        decode_entry(b'{"seq":1,"time":0,"kind":"note"}')


def test_requests_and_answers_read_back() -> None:
    assert WorkerRequest.decode(WorkerRequest("state").encode()) == WorkerRequest("state", PROTOCOL)
    assert WorkerRequest.decode(WorkerRequest("move", to="cpu:1").encode()).to == "cpu:1"
    assert WorkerRequest.decode(b'{"verb":"state","protocol":1}').to == ""  # of an earlier front
    answer = Answer(True, data={"state": "running"})
    assert Answer.decode(answer.encode()) == answer


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth - 1):
        inner = {"a": inner}
    return inner


def test_a_deep_display_reads_back_and_one_that_nobody_could_read_is_its_text() -> None:
    deep = Entry(1, 0.0, Display({"application/json": nested(550), "text/plain": "deep"}))
    assert decode_entry(encode_entry(deep)) == deep
    for depth in (700, 900, 5000):
        shown = Display({"application/json": nested(depth), "text/plain": "deep"}, {"m": 1}, {"display_id": "x"})
        assert decode_entry(encode_entry(Entry(1, 0.0, shown))) == Entry(
            1, 0.0, Display({"text/plain": "deep"}, {}, {"display_id": "x"})
        )


def test_what_no_json_can_hold_is_said_and_nothing_else_is_lost() -> None:
    circle: dict[str, Any] = {}
    circle["me"] = circle
    result = decode_entry(encode_entry(Entry(1, 0.0, Result({"application/json": circle}))))
    assert result is not None and result.event == Result({"text/plain": UNWRITABLE})
    widget = decode_entry(encode_entry(Entry(1, 0.0, WidgetMessage("c", "msg", {"state": nested(5000)}))))
    assert widget is not None and widget.event == Note(UNWRITABLE)
