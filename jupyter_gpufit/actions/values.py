"""What an option of the command line may be: its text read, or why not, with what to write; pure."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable

from ..errors import BadQuantity
from ..quantities import parse_bytes
from ..units import MiB, format_bytes

NAME = re.compile(r"[\w.-]{1,64}")


def memory(text: str) -> int:
    try:
        count = parse_bytes(text)
    except BadQuantity as error:
        raise ArgumentTypeError(str(error).rstrip(".")) from error
    if count < MiB:
        raise ArgumentTypeError(f"{text!r} is {format_bytes(count)}, in which nothing runs; say 12GiB, for example")
    return count


def name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a name: use up to 64 letters, digits, dots, dashes")
    return text


def number(most: int, of: str = "") -> Callable[[str], int]:
    """A whole one from 1 on."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a number {of}from 1 to {most}")
        return int(text)

    return read


def numbers(most: int) -> Callable[[str], tuple[int, int]]:
    """One from 1 on, or two that stand for all between: 2, 1-4."""
    one = number(most, "of devices ")

    def read(text: str) -> tuple[int, int]:
        first, dash, last = text.partition("-")
        least, largest = one(first), one(last if dash else first)
        if least > largest:
            raise ArgumentTypeError(f"{text!r} goes from more devices to fewer: write {largest}-{least}")
        return least, largest

    return read


def amount(most: float, of: str) -> Callable[[str], float]:
    """More than none, with a fraction or without."""

    def read(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = 0.0
        if not 0 < found <= most:
            raise ArgumentTypeError(f"{text!r} is not a number of {of} up to {most:.0f}")
        return found

    return read


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 16:
        raise ArgumentTypeError(f"{text!r} is not the number of a port")
    return int(text)


def moment(text: str) -> float:
    """Seconds."""
    number, unit = (text[:-2], 1e-3) if text.endswith("ms") else (text.removesuffix("s"), 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ArgumentTypeError(f"{text!r} is not a time of up to an hour: write 50ms or 2s, for example")
    return seconds


def dimension(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isascii() or not size.isdigit() or not int(size):
        raise ArgumentTypeError(f"{text!r} is not the size of a dimension: write length=512, for example")
    return name, int(size)


def variable(text: str) -> str:
    if not text.isidentifier():
        raise ArgumentTypeError(f"{text!r} is not the name of a variable")
    return text
