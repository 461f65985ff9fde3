"""torch's generators of random numbers, each with its state on each kind of device. Loaded only where torch is."""

from __future__ import annotations

from typing import Any

import torch

from ...devices import sides
from ..kind import Kind, Pickler, Reduced


def reduce_generator(generator: torch.Generator, pickler: Pickler) -> Reduced:
    if generator is torch.default_generator:
        return find_default_generator, ()
    device = "cuda" if sides.generator_on_device(generator) else "cpu"
    return make_generator, (device,), generator_state(generator), None, None, fill_generator


def find_default_generator() -> torch.Generator:
    return torch.default_generator


def make_generator(device: str) -> torch.Generator:
    return torch.Generator(device)


def generator_state(generator: torch.Generator) -> Any:
    """Of a device's: its seed, and its state on each kind of device that it was on. One means nothing to the other, so
    on a new kind it begins at its seed."""
    if generator is torch.default_generator:
        return None
    now = bytes(generator.get_state().cpu().numpy())
    if not sides.generator_on_device(generator):
        return now
    kind = "cuda" if type(generator) is torch._C.Generator else "cpu"
    seed, (then, others) = generator.initial_seed(), getattr(generator, _ELSEWHERE, (now, ()))
    return seed, ((kind, now), *(others if now == then else ()))


_ELSEWHERE = "_gpufit_elsewhere"  # what the generator was here when it came, and what it was on other kinds of device


def fill_generator(generator: torch.Generator, state: Any) -> None:
    if state is None:
        return
    if isinstance(state, bytes):
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        return
    seed, states = state
    kind = "cuda" if generator.device.type == "cuda" else "cpu"
    generator.manual_seed(seed)
    for known, found in states:
        if known == kind:
            generator.set_state(torch.frombuffer(bytearray(found), dtype=torch.uint8))
    if type(generator) is not torch._C.Generator:
        others = tuple(one for one in states if one[0] != kind)
        setattr(generator, _ELSEWHERE, (bytes(generator.get_state().numpy()), others))


KIND = Kind(reduce=reduce_generator, state=generator_state, fill=fill_generator)
