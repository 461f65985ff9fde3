"""An operation that is found again makes what it made the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from jupyter_gpufit.estimate.tracing.known import leaves
from jupyter_gpufit.estimate.tracing.remembered import Remembered

aten: Any = torch.ops.aten
Given = Callable[[], tuple[Any, ...]]

_REAL = torch.ones(3)

FOUND: dict[str, tuple[Any, Given]] = {
    "a product": (aten.mm.default, lambda: (torch.ones(3, 4), torch.ones(4, 5))),
    "a view": (aten.t.default, lambda: (torch.ones(3, 4),)),
    "a view of a part": (aten.slice.Tensor, lambda: (torch.ones(6, 4)[1:], 0, 1, 3)),
    "several views": (aten.split.Tensor, lambda: (torch.ones(6, 4), 4)),
    "a view that does not say so": (aten._unsafe_view.default, lambda: (torch.ones(6, 4), [3, 8])),
    "one of another size": (aten.expand.default, lambda: (torch.ones(1, 4), [7, 4])),
    "in place": (aten.add_.Tensor, lambda: (torch.ones(3), torch.ones(3))),
    "in many places": (aten._foreach_add_.Scalar, lambda: ([torch.ones(3), torch.ones(2, 2)], 0.5)),
    "a list": (aten._foreach_mul.Scalar, lambda: ([torch.ones(3), torch.ones(2, 2)], 0.5)),
    "two results": (aten.native_dropout.default, lambda: (torch.ones(3, 4), 0.5, True)),
    "of nothing": (aten.zeros.default, lambda: ([3, 4],)),
    "whole numbers": (aten.argmax.default, lambda: (torch.ones(3, 4), 1)),
    "rows": (aten.index.Tensor, lambda: (torch.ones(3, 4), [torch.zeros(5, dtype=torch.int64)])),
    "turned": (aten.clone.default, lambda: (torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),)),
    "of half": (aten._to_copy.default, lambda: (torch.ones(3, dtype=torch.float16),)),
}
NOT_FOUND: dict[str, tuple[Any, Given]] = {
    "rows of a mask": (aten.index.Tensor, lambda: (torch.ones(3, 4), [torch.ones(3, dtype=torch.bool)])),
    "a shape that changes": (aten.unsqueeze_.default, lambda: (torch.ones(3), 0)),
    "complex numbers": (aten.mul.Tensor, lambda: (torch.ones(3, dtype=torch.complex64),) * 2),
    "the host's": (aten.add.Tensor, lambda: (torch.ones(3), _REAL)),
}


def _told(found: Any, given: Any) -> list[Any]:
    """All that can be seen of what came out, and on whose memory it stands."""
    places = {one.untyped_storage()._cdata: at for at, one in enumerate(leaves(given)) if isinstance(one, FakeTensor)}
    return [
        (one.size(), one.stride(), one.storage_offset(), one.dtype, one.fake_device, one.untyped_storage().nbytes())
        + (places.get(one.untyped_storage()._cdata), any(one is two for two in leaves(given)))
        for one in leaves(found)
        if isinstance(one, FakeTensor)
    ]


@pytest.fixture
def fake() -> FakeTensorMode:
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_again_is_what_it_was(fake: FakeTensorMode, name: str) -> None:
    func, make = FOUND[name]
    remembered = Remembered(fake)
    with fake:
        first, second = make(), make()
        key = remembered.key(func, first, {})
        out = func(*first)
        remembered.note(key, func, first, {}, out, "its cost")

    noted = remembered.find(remembered.key(func, second, {}))

    assert noted is not None and noted.cost == "its cost"
    again = remembered.again(noted, second)
    assert _told(again, second) == _told(out, first)
    assert type(again) is type(out)


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_may_follow_from_more_than_shapes_is_not(fake: FakeTensorMode, name: str) -> None:
    func, make = NOT_FOUND[name]
    remembered = Remembered(fake)
    with fake:
        first, second = make(), make()
        key = remembered.key(func, first, {})
        out = first[0] if key is None else func(*first)
        remembered.note(key, func, first, {}, out, None)

    assert remembered.find(remembered.key(func, second, {})) is None


def test_what_differs_in_anything_that_shapes_and_types_follow_from_is_another(fake: FakeTensorMode) -> None:
    remembered = Remembered(fake)
    with fake:
        wide, whole = torch.ones(3, 4), torch.ones(3, 4, dtype=torch.int64)
    add, view = aten.add.Tensor, aten.view.default

    keys = [
        remembered.key(add, (wide, 1), {}),
        remembered.key(add, (wide, 1.0), {}),
        remembered.key(add, (wide, True), {}),
        remembered.key(add, (whole, 1), {}),
        remembered.key(add, (wide.t(), 1), {}),
        remembered.key(add, (wide[1:], 1), {}),
        remembered.key(add, (wide, 1), {"alpha": 2}),
        remembered.key(view, (wide, [12]), {}),
        remembered.key(view, (wide, [2, 6]), {}),
        remembered.key(view, (wide, (2, 6)), {}),
    ]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        keys.append(remembered.key(add, (wide, 1), {}))
    finally:
        torch.set_default_dtype(before)

    assert None not in keys and len(set(keys)) == len(keys)
    assert remembered.key(add, (wide, 0.1), {}) == remembered.key(add, (wide, 0.2), {})
