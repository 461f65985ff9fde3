"""What a cell gives to the shell and to no name."""

from __future__ import annotations

import sys
from types import TracebackType

import pytest

from jupyter_gpufit.graph.unavailable import Unavailable
from jupyter_gpufit.surroundings import given


class OwnError(Exception): ...


def test_the_last_value_and_the_error_stand_among_the_variables_and_are_taken_out_of_them() -> None:
    namespace = {"Out": 1}
    with given.travelling(namespace, {given.out(5): 42} | given.error(error := OwnError(), ())):
        came = dict(namespace)

    assert namespace == {"Out": 1} and given.arrived(came) == given.LeftToShell((42,), error) and came == {"Out": 1}


def test_what_stayed_in_the_worker_is_no_value() -> None:
    assert given.arrived({"Out[5]": Unavailable("a lock"), given.ERROR: Unavailable("an error")}) == given.LeftToShell()


@pytest.mark.parametrize("left", [None, KeyboardInterrupt(), SystemExit(3), StopIteration()])
def test_what_a_loop_or_a_generator_would_take_for_a_word_to_itself_is_not_raised_anew(
    left: BaseException | None,
) -> None:
    assert given.error(left, ()) == {}


def test_what_the_shell_keeps_is_known_by_its_names() -> None:
    assert [*filter(given.of_shell({"_": 1, "_5": 2, "_x": 3}), ["_", "_5", "_x", "__", "_6"])] == ["_", "_5"]


def test_an_error_whose_frames_cannot_be_read_or_made_is_an_error_all_the_same() -> None:
    class Unreadable:
        def __contains__(self, one: object) -> bool:
            raise RuntimeError

    try:
        raise OwnError
    except OwnError as error:
        raised = error
    assert raised.__traceback__ is not None
    raised.__traceback__ = TracebackType(raised.__traceback__, sys._getframe(), 0, 1)  # as below a frame of the shell's
    assert given.error(raised, Unreadable()) == {given.ERROR: raised}
    assert given.arrived({given.ERROR: raised, given.TRACE: ("no frames",)}).error is raised
