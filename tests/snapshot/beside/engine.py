"""Trainings that a notebook only calls."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .meters import Logger

Callback = Callable[["Trainer", float], None]


def timed(what: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(what)
    def inner(*args: Any, **keywords: Any) -> Any:
        began = time.monotonic()
        try:
            return what(*args, **keywords)
        finally:
            inner.took = time.monotonic() - began  # type: ignore[attr-defined]

    return inner


def repeated(times: int) -> Callable[..., Any]:
    def around(what: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(what)
        def inner(*args: Any, **keywords: Any) -> list[Any]:
            found = []
            for _ in range(times):
                found.append(what(*args, **keywords))  # noqa: PERF401  # a comprehension cannot be left midway
            return found

        return inner

    return around


def with_history(cls: Any) -> Any:
    """A class decorator, which puts a function of its own in the place of a method."""
    own = cls.fit

    def fit(self: Any, *args: Any, **keywords: Any) -> Any:
        self.history = []
        return own(self, *args, **keywords)

    cls.fit = fit
    return cls


@contextmanager
def training(model: nn.Module) -> Iterator[nn.Module]:
    was = model.training
    model.train()
    try:
        yield model
    finally:
        model.train(was)


def put_into(cls: Any) -> Callable[..., Any]:
    """Make a function a method, also by the name that its code has, as some libraries extend their classes."""

    def put(what: Any) -> Any:
        code = what.__code__.replace(co_qualname=f"{cls.__name__}.{what.__name__}")
        made = type(what)(code, what.__globals__, what.__name__, what.__defaults__, what.__closure__)
        setattr(cls, what.__name__, made)
        return made

    return put


class Base:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.callbacks: list[Callback] = []

    def __call__(self, loader: Any, epochs: int) -> Any:
        return self.fit(loader, epochs=epochs)

    def fit(self, loader: Any, *, epochs: int) -> Any:
        for epoch in range(epochs):
            with training(self.model):
                self.epoch(loader, epoch)
        return epochs

    def epoch(self, loader: Any, epoch: int) -> None:
        for x, y in loader:
            self.step(x, y)

    def step(self, x: Any, y: Any) -> float:
        loss = functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


@with_history
class Trainer(Base):
    __made = 0

    @property
    def steps(self) -> int:
        return self.__made

    def fit(self, loader: Any, *, epochs: int) -> Any:
        found = super().fit(loader, epochs=epochs)
        return found, self.steps

    @timed
    def epoch(self, loader: Any, epoch: int) -> None:
        self.logger = Logger()
        self.kept = self.numbers()
        for x, y in self.logger.log_every(loader, 2, f"epoch {epoch}"):
            loss = self.step(x, y)
            self.__made += 1
            self.logger.update(loss=loss)
            self.history.append((next(self.kept), loss))  # type: ignore[attr-defined]
            self.tell(loss)
        self.history.append(self.logger.lines)  # type: ignore[attr-defined]

    def numbers(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def tell(self, loss: float) -> None:
        for callback in self.callbacks:
            callback(self, loss)


@put_into(Trainer)
def fit_twice(self: Trainer, loader: Any, epochs: int) -> list[Any]:
    found = []
    for _ in range(2):
        found.append(self(loader, epochs))  # noqa: PERF401
    return found


class Probe:
    """Trains where it is made, computes where its properties are asked for, and tidies up in a `finally`."""

    def __init__(self, model: nn.Module, loader: Any) -> None:
        self.loader = loader
        self.probe = nn.Linear(3, 3)
        self.trainer = Base(nn.Sequential(model, self.probe), torch.optim.SGD(self.probe.parameters(), lr=0.1))
        try:
            self.trainer(loader, 1)
        finally:
            for one in self.probe.parameters():
                one.grad = None

    @property
    def score(self) -> float:
        return self._over(lambda x, y: functional.cross_entropy(self.trainer.model(x), y))

    @functools.cached_property
    def accuracy(self) -> float:
        return self._over(lambda x, y: (self.trainer.model(x).argmax(1) == y).float().mean())

    def _over(self, measure: Callable[[Any, Any], torch.Tensor]) -> float:
        total = 0.0
        for x, y in self.loader:
            total += measure(x, y).item()
        return total


def evaluator(model: nn.Module) -> Callable[[Any], float]:
    """A closure that its caller keeps."""
    seen = 0

    @torch.no_grad()
    def evaluate(loader: Any) -> float:
        nonlocal seen
        total = 0.0
        model.eval()
        for x, y in loader:
            seen += 1
            total += functional.cross_entropy(model(x), y).item()
        return total / seen

    return evaluate


@repeated(2)
@timed
def search(objective: Callable[[float], float], rates: list[float]) -> float:
    best = float("inf")
    for rate in rates:
        try:
            best = min(best, objective(rate))
        except ValueError:
            continue
        finally:
            best += 1e-9
    return best


def asks_around(names: Any) -> int:
    """Loops while it holds what no checkpoint can, as a library does where it begins something."""
    lock, found = threading.Lock(), 0
    with lock:
        for name in names:
            found += len(name)
    return found
