"""Environments that step in processes of their own, as libraries of reinforcement learning have them."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


def serve(link: Connection, make: Callable[[], Any]) -> None:
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


class Named(Vector):
    def __init__(self, *makes: Callable[[], Any], name: str = "", **more: Any) -> None:
        super().__init__(list(makes), **more)
        self.name, self.learned = name, [None]
