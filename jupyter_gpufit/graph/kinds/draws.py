"""The state of a random generator of Python's, NumPy's or torch's, whichever library is loaded: read, and put back."""

from __future__ import annotations

import random
from typing import Any


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
