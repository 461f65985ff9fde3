"""What a forward changes beside its result, kept while the whole batch is tried: it must be as if that had not been."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from ..rungs.operations import tensors_in
from .leaves import left_in

_SIZED = (list, dict, set)


class GeneratorsBefore:
    """Those of random numbers."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._python, numpy = random.getstate(), sys.modules.get("numpy.random")
        self._numpy = numpy.get_state() if numpy else None

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)


class StateBefore:
    """Attributes and buffers of a model's modules, and the generators of random numbers."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = [(one, _shallow(vars(one))) for one in model.modules()]
        self._buffers = [(b, b.detach().clone()) for b in model.buffers()]
        self._generators = GeneratorsBefore()

    def restore(self) -> None:
        """Put all of it back, into the same objects."""
        for module, before in self._modules:
            _restore(vars(module), before)
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)
        self._generators.restore()


class LookedAt(StateBefore):
    """With what shows whether it was changed; and its parameters, which a forward may clip, mask or average."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._model, self._left = model, left_in(model)
        self._parameters = [(p, p.data) for p in model.parameters() if not isinstance(p, FakeTensor)]
        self._homes = {t.untyped_storage()._cdata: t for _, t in self._parameters}
        self._written: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def about_to_write(self, found: Any) -> None:
        """Keep what it was of a parameter that an operation changes in place."""
        for t in tensors_in(found):
            home = self._homes.get(t.untyped_storage()._cdata) if t.layout is torch.strided else None
            if home is not None and id(home) not in self._written:
                self._written[id(home)] = home, home.detach().clone()

    def restore(self) -> None:
        super().restore()
        with torch.no_grad():
            for p, home in self._parameters:
                if p.untyped_storage()._cdata != home.untyped_storage()._cdata:
                    p.data = home
            for home, value in self._written.values():
                home.copy_(value)

    def changed(self) -> list[tuple[str, Any]]:
        """What it has left in attributes since."""
        known = dict(self._left)
        return [(way, one) for way, one in left_in(self._model) if known.get(way) is not one]


def sizes_of(model: nn.Module) -> list[torch.Tensor]:
    """Two numbers of each parameter, by which a change shows; a stand-in has none."""
    found = []
    for p in map(torch.Tensor.detach, model.parameters()):
        if isinstance(p, FakeTensor) or p.is_meta or not (p.is_floating_point() or p.is_complex()):
            continue
        dtype = torch.promote_types(p.dtype, torch.float32)
        found.append(torch.stack([torch.linalg.vector_norm(p, dtype=dtype), p.sum(dtype=dtype)]).nan_to_num())
    return found


def _shallow(values: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (one, one.copy() if type(one) in _SIZED else None) for name, one in values.items()}


def _restore(values: dict[str, Any], before: dict[str, tuple[Any, Any]]) -> None:
    for name in values.keys() - before.keys():
        del values[name]
    for name, (one, content) in before.items():
        values[name] = one
        if isinstance(one, list) and content is not None:
            one[:] = content
        elif content is not None:
            one.clear()
            one.update(content)


def generator_state() -> bytes:
    """Of torch's own generator; also where tensors are stand-ins without values, which a state is not."""
    with no_dispatch():
        return torch.get_rng_state().numpy().tobytes()


def drawn_until_now() -> tuple[Any, ...]:
    """What another draw would change, in a run or a trial run."""
    numpy = sys.modules.get("numpy.random")
    drawn = numpy.get_state() if numpy else None
    of_numpy = (drawn[1].tobytes(), *drawn[2:]) if isinstance(drawn, tuple) else ()
    return generator_state(), random.getstate(), of_numpy


class Dropped(Exception):
    """A gradient was wanted of what has kept nothing for it."""


@contextmanager
def tried() -> Iterator[None]:
    """A forward as for a training, which prints nothing and keeps nothing for a backward."""

    def unpack(_: object) -> torch.Tensor:
        raise Dropped

    with redirect_stdout(io.StringIO()), torch.autograd.graph.saved_tensors_hooks(lambda t: None, unpack):
        yield
