from __future__ import annotations

import pytest
import torch

from jupyter_gpufit.cuda.slot import as_slot
from jupyter_gpufit.fit.memory import ran_out, words_of
from jupyter_gpufit.units import MiB


def too_much() -> None:
    torch.empty(128 * MiB, device="cuda")


def trains() -> None:
    try:
        too_much()
    except torch.OutOfMemoryError as error:
        raise ValueError("the training failed\nfor want of memory") from error


def handles() -> None:
    try:
        too_much()
    except torch.OutOfMemoryError:
        raise KeyError("another mistake")  # noqa: B904


def interpreted() -> None:
    """As TorchScript said it of a model that was too large for its slot, under a plan."""
    try:
        too_much()
    except torch.OutOfMemoryError as error:
        text = "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript:\n"
        raise RuntimeError(f"{text}RuntimeError: OutOfMemoryError: {error}\n") from None


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (too_much, "OutOfMemoryError: The CPU slot cpu:0 has 256.0 MiB; "),
        (trains, "OutOfMemoryError (ValueError): the training failed"),
        (
            interpreted,
            "OutOfMemoryError (RuntimeError): The following operation failed in the TorchScript interpreter.",
        ),
    ],
)
def test_in_whatever_it_is_wrapped(fails: object, words: str) -> None:
    error = error_of(fails)

    assert ran_out(error)
    assert words_of(error).startswith(words) and "\n" not in words_of(error)


def test_a_mistake_of_who_handles_it_is_another_error() -> None:
    error = error_of(handles)

    assert not ran_out(error)
    assert words_of(error) == "KeyError: 'another mistake'"
    assert not ran_out(None)


def error_of(fails: object) -> BaseException:
    assert callable(fails)
    with as_slot("cpu:0", 256 * MiB), pytest.raises(Exception) as caught:
        fails()
    return caught.value


def test_an_error_in_a_circle() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    assert not ran_out(one)
