"""Environments that step in processes of their own, as libraries of reinforcement learning have them."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

_PDEATHSIG = 1


def serve(link: Connection, make: Callable[[], Any]) -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # tests kill the parent, and a pipe's other copies stay open
    at: int = make()
    while (asked := link.recv()) is not None:
        at += asked
        link.send(at)


class Vector:
    def __init__(self, makes: list[Callable[[], Any]], *, scale: int = 1) -> None:
        context, self.scale = get_context("fork"), scale
        self.links, theirs = zip(*(context.Pipe() for _ in makes), strict=True)
        self.children = [
            context.Process(target=serve, args=both, daemon=True) for both in zip(theirs, makes, strict=True)
        ]
        for child in self.children:
            child.start()

    def step(self, asked: int) -> list[int]:
        for link in self.links:
            link.send(asked)
        return [link.recv() * self.scale for link in self.links]

    def close(self) -> None:
        for link, child in zip(self.links, self.children, strict=True):
            link.send(None)
            child.join()


class Measured(Vector):
    """It has used processes, and keeps none."""

    def __init__(self) -> None:
        super().__init__([lambda: 7])
        self.found = self.step(1)
        self.close()
        del self.links, self.children


class Named(Vector):
    def __init__(self, *makes: Callable[[], Any], name: str = "", **more: Any) -> None:
        super().__init__(list(makes), **more)
        self.name, self.learned = name, [None]
