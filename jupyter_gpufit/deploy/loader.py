"""Weights that are loaded in the process on the device while it runs another model: by a thread with its own channel.

Whose weights these are, and which leave for them, is said by the desk, which knows what is wanted next. Some weights
come with a run, and others leave for them: what the desk orders holds in the desk's order, whichever thread does it.
So each order says how many of the other thread's come before it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..calls.protocol import LARGEST, encode
from .session import Model


class Loader:
    """Of one instance."""

    def __init__(self, models: Sequence[Model], channel: socket.socket) -> None:
        self._models = models
        self._channel = channel
        self._done = 0  # orders
        self._in_runs = 0  # loads that came with a run, and are over
        self._failed: Exception | None = None
        self._change = threading.Condition()
        threading.Thread(target=self._work, name="gpufit-loader", daemon=True).start()

    def wait(self, orders: int) -> None:
        """Until so many have been done; raises what one of them failed with."""
        with self._change:
            self._change.wait_for(lambda: self._done >= orders or self._failed is not None)
            if self._failed is not None and orders:
                raise self._failed

    def loaded_in_run(self) -> None:
        """What a run was to load is there, or will not come."""
        with self._change:
            self._in_runs += 1
            self._change.notify_all()

    def _work(self) -> None:
        try:
            while packet := self._channel.recv(LARGEST):
                self._channel.send(encode(self._load(json.loads(packet))))
        except Exception as error:  # ONNX Runtime's own, of many kinds; or the other end is gone, and nobody waits
            with self._change:
                self._failed = error
                self._change.notify_all()

    def _load(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._change:
            self._change.wait_for(lambda: self._in_runs >= order["after"])
        for leaving in order["leaving"]:
            self._models[leaving].evict()
        seconds = timed(self._models[order["model"]].load)
        with self._change:
            self._done += 1
            self._change.notify_all()
        return {"loaded": order["model"], "seconds": seconds}


def timed(do: Callable[[], None]) -> float:
    """Seconds."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began
