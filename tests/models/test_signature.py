"""A wrong call is told what was expected."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jupyter_gpufit.errors import BadCall
from jupyter_gpufit.models.signature import Signature, Slot, check_call, named

TWO = Signature(
    (Slot("ids", "int64", ("batch", "length")), Slot("mask", "float32", ("batch", "length"))),
    (Slot("y", "float32", ("batch", 2)),),
)


def test_inputs_are_given_by_place_or_by_name() -> None:
    assert named(TWO, [1], {"mask": 2}) == named(TWO, [1, 2], {}) == {"ids": 1, "mask": 2}


@pytest.mark.parametrize(
    ("given", "by_name", "why"),
    [
        ([1, 2, 3], {}, "3 inputs were given, and the model takes ids: int64 [batch, length], mask: float32"),
        ([1], {}, "The input 'mask' is missing"),
        ([1], {"mark": 2}, "The model has no input 'mark'. It takes ids: int64 [batch, length]"),
        ([1, 2], {"ids": 2}, "The input 'ids' was given twice"),
    ],
)
def test_wrong_names_are_refused(given: Sequence[object], by_name: dict[str, object], why: str) -> None:
    with pytest.raises(BadCall) as found:
        named(TWO, given, by_name)
    assert why in str(found.value)


@pytest.mark.parametrize(
    ("ids", "mask", "why"),
    [
        (("int64", (2, 7)), ("float32", (2, 7)), ""),
        (("int32", (2, 7)), ("float32", (2, 7)), "ids is int32, and the model takes int64: ids.astype('int64')"),
        (("int64", (2,)), ("float32", (2, 7)), "ids has the shape [2], and the model takes [batch, length]"),
        (("int64", (2, 7)), ("float32", (3, 7)), "batch is 2 in ids, and 3 in mask: they must be the same"),
    ],
)
def test_types_and_shapes_are_checked(
    ids: tuple[str, tuple[int, ...]], mask: tuple[str, tuple[int, ...]], why: str
) -> None:
    try:
        check_call(TWO, {"ids": ids, "mask": mask})
        said = ""
    except BadCall as error:
        said = str(error)
    assert why in said and bool(why) == bool(said)


def test_a_batch_is_one_dimension_that_all_inputs_begin_with() -> None:
    assert TWO.may_batch
    assert not Signature((Slot("x", "float32", (1, "n")),), ()).may_batch
    assert not Signature((Slot("x", "float32", ("n",)), Slot("z", "float32", ("m",))), ()).may_batch
    assert not Signature((Slot("x", "float32", None),), ()).may_batch
    assert not Signature((), ()).may_batch
