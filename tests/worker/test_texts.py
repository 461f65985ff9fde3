"""Merging, cutting and decoding lose nothing, whatever was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.units import MiB
from jupyter_gpufit.worker.texts import (
    BATCH,
    LONGEST_TEXT,
    Bytes,
    Decoder,
    Event,
    WrittenText,
    batches,
    coalesced,
    size,
)

NAMES = st.sampled_from(["stdout", "stderr"])
TEXTS = st.builds(WrittenText, NAMES, st.text(max_size=5))  # with lone surrogates now and then


def _written(events: list[Event]) -> list[tuple[str, str]]:
    """Every character with its stream, and everything else in its place."""
    return [
        (event.name, letter) if isinstance(event, WrittenText) else ("put", str(event))
        for event in events
        for letter in (event.text if isinstance(event, WrittenText) else "x")
    ]


def test_merges_neighbours_of_one_name() -> None:
    events: list[Event] = [
        WrittenText("stdout", "a"),
        WrittenText("stdout", "b"),
        WrittenText("stderr", "c"),
        "a picture",
        WrittenText("stderr", "d"),
        WrittenText("stderr", ""),
    ]

    merged = list(coalesced(events))

    assert merged == [WrittenText("stdout", "ab"), WrittenText("stderr", "c"), "a picture", WrittenText("stderr", "d")]


def test_keeps_carriage_returns() -> None:
    assert list(coalesced([WrittenText("stderr", "1/2\r"), WrittenText("stderr", "2/2\r\n")])) == [
        WrittenText("stderr", "1/2\r2/2\r\n")
    ]


@pytest.mark.slow
@given(st.lists(TEXTS | st.integers()))
def test_merging_loses_nothing_and_keeps_the_order(events: list[Event]) -> None:
    merged = list(coalesced(events))
    encodable = [
        WrittenText(event.name, event.text.encode("utf-8", "backslashreplace").decode())
        if isinstance(event, WrittenText)
        else event
        for event in events
    ]

    assert _written(merged) == _written(encodable)
    for one, other in zip(merged, merged[1:], strict=False):
        assert not (isinstance(one, WrittenText) and isinstance(other, WrittenText) and one.name == other.name)


@pytest.mark.slow
def test_no_text_is_longer_than_a_message_can_carry() -> None:
    for letter in ("a", "é", "🙂", "\ud800"):
        texts = [
            event for event in coalesced([WrittenText("stdout", letter * (3 * MiB))]) if isinstance(event, WrittenText)
        ]

        assert "".join(text.text for text in texts) == (letter * (3 * MiB)).encode("utf-8", "backslashreplace").decode()
        assert all(len(text.text.encode()) <= MiB for text in texts)


@pytest.mark.slow
@given(st.lists(st.tuples(NAMES, st.binary(max_size=6))))
def test_decodes_bytes_however_they_are_cut(chunks: list[tuple[str, bytes]]) -> None:
    events: list[Event] = [Bytes(name, data) for name, data in chunks]  # type: ignore[arg-type]  # of NAMES

    texts = [event for event in Decoder().texts(events, last=True) if isinstance(event, WrittenText)]

    for name in ("stdout", "stderr"):
        whole = b"".join(data for other, data in chunks if other == name)
        assert "".join(text.text for text in texts if text.name == name) == whole.decode("utf-8", "backslashreplace")


def test_half_a_character_waits_for_its_other_half() -> None:
    decoder = Decoder()
    first, second = "é".encode()[:1], "é".encode()[1:]

    assert list(decoder.texts([Bytes("stdout", first)], last=False)) == [WrittenText("stdout", "")]
    assert list(decoder.texts([Bytes("stdout", second)], last=False)) == [WrittenText("stdout", "é")]


def test_a_huge_text_is_handed_on_in_parts() -> None:
    parts = list(batches(coalesced([WrittenText("stdout", "x" * (5 * BATCH))])))

    assert len(parts) >= 5
    assert all(sum(map(size, part)) <= BATCH + 2 * LONGEST_TEXT for part in parts)
