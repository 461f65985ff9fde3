"""The state of a random generator of Python's, NumPy's or torch's, whichever library is loaded: read, and put back."""

from __future__ import annotations

import random
import sys
from typing import Any


def is_generator(one: Any) -> bool:
    """Whether it has a state to go on from. By its type: a lazy object makes itself when it is asked for its class."""
    cls = type(one)
    if issubclass(cls, random.Random):
        return not issubclass(cls, random.SystemRandom)
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None and issubclass(cls, (numpy.Generator, numpy.RandomState)):
        return True
    return torch is not None and issubclass(cls, torch.Generator)


def read_state(generator: Any) -> Any:
    """As `put_state` takes it."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    legacy = {} if _is_torchs(generator) else {"legacy": False}
    return generator.get_state(**legacy)


def put_state(generator: Any, state: Any) -> None:
    """Go on from there."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _is_torchs(generator: Any) -> bool:
    return type(generator).__module__.startswith("torch")
