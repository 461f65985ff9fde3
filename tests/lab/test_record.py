"""The text of tickets and claims: read without trust."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.lab.record import LONGEST, Hold, TicketWriter, decode, encode
from tests.lab.values import request

WRITER = TicketWriter(pid=7, start_time=1234, boot="b", view=1)
HOLD = Hold(devices=("cpu:0", "cpu:1"), bytes=5, alone=True, share=1.5)


def changed(*path: str, to: Any) -> bytes:
    record = json.loads(encode(request(), WRITER, HOLD))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(record).encode()


def test_what_was_written_is_read() -> None:
    asked = request(None, label="train.ipynb", exclusive=True, gpu="0,1", count=2, host=9)
    assert decode(encode(asked, WRITER)) == (asked, WRITER, None)
    assert decode(encode(asked, WRITER, HOLD)) == (asked, WRITER, HOLD)


def test_labels_of_any_length_stay_readable() -> None:
    text = encode(request(name="ü" * 10**6, label="\n" * 10**6, gpu="x" * 10**6), WRITER, HOLD)
    assert len(text) < LONGEST
    assert decode(text)[0].name == "ü" * 200


def test_a_later_format_may_add_keys() -> None:
    assert decode(changed("later", to={"more": 1})) == decode(changed("format", to=2))


@pytest.mark.parametrize(
    "text",
    [
        changed("request", "needed", to=-1),
        changed("request", "needed", to=True),
        changed("request", "needed", to=1e9),
        changed("request", "needed", to=10**30),
        changed("request", "count", to=10**6),
        changed("request", "host", to=-1),
        changed("request", "name", to=["a"]),
        changed("request", "exclusive", to=1),
        changed("request", to=None),
        changed("writer", "pid", to="1"),
        changed("hold", "devices", to=[]),
        changed("hold", "devices", to="cpu:0"),
        changed("hold", "devices", to=["x"] * 1000),
        changed("hold", "share", to=float("nan")),
        changed("hold", "share", to=float("inf")),
        b"[]",
        b"",
        b"null",
        b"[" * LONGEST,
        b"\xff",
        b"9" * LONGEST,
    ],
)
def test_what_is_not_right_is_refused_as_a_whole(text: bytes) -> None:
    with pytest.raises(ValueError):
        decode(text)


@given(st.binary(max_size=100) | st.text('[]{}"9:,e-', max_size=30).map(str.encode))
def test_nothing_else_than_a_refusal_comes_of_junk(text: bytes) -> None:
    with pytest.raises(ValueError):
        decode(text)
