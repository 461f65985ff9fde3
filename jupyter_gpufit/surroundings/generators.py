"""Random number generators go with a cell and come back: a seed set in an earlier cell must keep its promise.

The global ones only: python's, numpy's, torch's. A generator that the user holds travels as the variable it is.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .past_modes import past_modes

NAME = "_gpufit_generators"  # among the variables that travel, and never among those the user sees
of_cuda: dict[str, Any] = {}  # what its generators are to be where there is a device: a "seed", or their "states"
DEFAULT_SEED = 67280421310721  # torch's own, of a generator that nobody has seeded


def states() -> dict[str, Any]:
    """The state of every global generator whose library this process has loaded."""
    found: dict[str, Any] = {"python": random.getstate()}
    if "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found["torch"] = torch.get_rng_state(), torch.initial_seed()
        if torch.cuda.is_initialized():
            found["cuda"] = {"states": torch.cuda.get_rng_state_all()}
        elif of_cuda:
            found["cuda"] = dict(of_cuda)
    return found


def restore(found: dict[str, Any]) -> None:
    """Put generators into these states; a library that is not loaded here has no generator to put."""
    random.setstate(found["python"])
    if "numpy" in found and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(found["numpy"])
    if "torch" in found and "torch" in sys.modules:
        torch = sys.modules["torch"]
        state, seed = found["torch"]
        if seed not in (DEFAULT_SEED, torch.initial_seed()):
            torch.manual_seed(seed)  # also, once CUDA is initialised, the devices' own
        torch.set_rng_state(state)
        _restore_cuda(torch, found.get("cuda", {}))


def of_host() -> dict[str, Any]:
    """The states that an import may change; also while numpy or torch is being imported itself."""
    with past_modes():
        return {"python": random.getstate(), **{name: one.get_state() for name, one in _imported_whole()}}


def drawn_since(before: dict[str, Any]) -> bool:
    now = of_host()
    with past_modes():
        return any(_plain(before[name]) != _plain(now[name]) for name in before.keys() & now.keys())


def restore_host(found: dict[str, Any]) -> None:
    random.setstate(found["python"])
    with past_modes():
        for name, one in _imported_whole():
            if name in found:
                one.set_state(found[name])


def _plain(state: Any) -> bytes:
    return pickle.dumps(state.numpy() if hasattr(state, "numpy") else state)


def _imported_whole() -> Iterator[tuple[str, Any]]:
    for name, of in (("numpy", "random"), ("torch", "default_generator")):
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            yield name, getattr(module, of)


def _restore_cuda(torch: Any, found: dict[str, Any]) -> None:
    """Torch keeps these calls until CUDA is initialised, which must not happen before there is a claim."""
    if "states" in found:
        torch.cuda.set_rng_state_all(found["states"])
    elif "seed" in found:
        torch.cuda.manual_seed_all(found["seed"])
    of_cuda.clear()
    of_cuda.update(found)


def seed_cuda(seed: int) -> None:
    """A cell of a process that has no device has seeded its generators."""
    of_cuda.clear()
    of_cuda["seed"] = seed


@contextmanager
def travelling(namespace: dict[str, Any]) -> Iterator[str]:
    """Let the states stand among the variables while those are packed; yields their name."""
    namespace[NAME] = states()
    try:
        yield NAME
    finally:
        namespace.pop(NAME, None)


def arrived(namespace: dict[str, Any]) -> None:
    """Take the states that came with variables out of the namespace, and put this process's generators into them."""
    found = namespace.pop(NAME, None)
    if found is not None:
        restore(found)
