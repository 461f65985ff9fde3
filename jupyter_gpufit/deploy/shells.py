"""A model whose weights come and go: its session is made once, and to load or evict it is to copy bytes, or drop them.

The weights lie in one piece of memory that is the kernel's again as soon as it is dropped. From a heap, pieces of many
sizes that come and go a thousand times would not be.
"""

from __future__ import annotations

import mmap
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..calls.protocol import lay_out
from ..models.shell import BYTES, SHELL, read_weights
from ..models.signature import Signature
from .providers import Provider
from .runtime import OnnxRuntime, OrtRuntime, run_bound
from .session import Arrays, Model


class ShellModel(Model):
    """One model of several on a device that has no room for all of them."""

    def __init__(
        self, folder: Path, signature: Signature, provider: Provider, runtime: OrtRuntime | None = None
    ) -> None:
        self._runtime = runtime or OnnxRuntime()
        super().__init__(str(folder / SHELL), signature, provider, self._runtime, shared=True)
        self._folder = folder
        self._provider = provider
        self._index = read_weights(folder)
        self._places, self.weights = lay_out([one.length for one in self._index])
        self._bound = self._session.io_binding()
        self._there: list[Any] = []  # what is bound does not keep it alive

    def load(self) -> None:
        memory = mmap.mmap(-1, max(self.weights, 1))
        with open(self._folder / BYTES, "rb") as file:
            for one, place in zip(self._index, self._places, strict=True):
                file.seek(one.at)
                with memoryview(memory)[place : place + one.length] as view:
                    if file.readinto(view) != one.length:
                        raise EOFError(f"{self._folder / BYTES} is cut off")
        for one, place in zip(self._index, self._places, strict=True):
            array = np.frombuffer(memory, one.dtype, prod(one.shape), place).reshape(one.shape)
            value = self._runtime.on_device(array, self._provider)
            self._bound.bind_ortvalue_input(one.name, value)
            self._there.append(value)

    def evict(self) -> None:
        self._bound.clear_binding_inputs()
        self._there.clear()

    def run(self, inputs: Arrays) -> Arrays:
        feed = dict(zip(self._names, inputs, strict=True))
        return run_bound(self._session, self._bound, feed, [slot.name for slot in self.signature.outputs])
