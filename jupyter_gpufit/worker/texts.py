"""Output as values: texts and what else is shown, merged and cut into what one message can carry."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias, get_args

from ..units import MiB

BATCH = 4 * MiB  # handed on at once
LONGEST_TEXT = MiB // 6  # characters: none takes over six bytes (a lone surrogate, written out), so 1 MiB at most

Name: TypeAlias = Literal["stdout", "stderr"]
Event: TypeAlias = object  # a Text, or something richer that was shown between texts


class WrittenText(NamedTuple):
    """What was written to one of the two streams."""

    name: Name
    text: str


class Passage(NamedTuple):
    """Texts of one stream with nothing between them; it grows while nothing else is written."""

    name: Name
    texts: list[str]

    def whole(self) -> WrittenText:
        return WrittenText(self.name, "".join(self.texts))


class Bytes(NamedTuple):
    """What came through a pipe, not yet decoded."""

    name: Name
    data: bytes


class Decoder:
    """Makes texts of bytes, whatever they are; half a character waits until its other half comes."""

    def __init__(self) -> None:
        new = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: new("backslashreplace") for name in get_args(Name)}

    def texts(self, events: Iterable[Event], *, last: bool) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Bytes):
                yield WrittenText(event.name, self._decoders[event.name].decode(event.data))
            else:
                yield event
        if last:
            for name, decoder in self._decoders.items():
                yield WrittenText(name, decoder.decode(b"", final=True))


def size(event: Event) -> int:
    """About what an event takes in memory."""
    return 64 + (sys.getsizeof(event[1]) if isinstance(event, WrittenText | Bytes) else 0)


def size_of_text(text: str) -> int:
    """About what a text takes in a passage: a million one-letter writes are not a million bytes."""
    return 8 + sys.getsizeof(text)


def coalesced(events: Iterable[Event]) -> Iterator[Event]:
    """Merge neighbouring texts of one name, as far as a message can carry them."""
    shown = (event for event in events if not isinstance(event, WrittenText) or event.text)
    for name, run in groupby(shown, key=lambda event: event.name if isinstance(event, WrittenText) else None):
        if name is None:
            yield from run
        else:
            yield from (
                WrittenText(name, text)
                for text in _lengthened(event.text for event in run if isinstance(event, WrittenText))
            )


def _lengthened(texts: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    length = 0
    for text in texts:
        for start in range(0, len(text), LONGEST_TEXT):
            piece = text[start : start + LONGEST_TEXT]
            if length + len(piece) > LONGEST_TEXT:
                yield _encodable("".join(held))
                held, length = [], 0
            held.append(piece)
            length += len(piece)
    if held:
        yield _encodable("".join(held))


def _encodable(text: str) -> str:
    """A lone surrogate fits into no file or socket; it must not take what was written around it along."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Gather events until a batch is worth handing on, so that a huge text is never copied as a whole."""
    batch: list[Event] = []
    gathered = 0
    for event in events:
        batch.append(event)
        gathered += size(event)
        if gathered >= BATCH:
            yield batch
            batch, gathered = [], 0
    if batch:
        yield batch
