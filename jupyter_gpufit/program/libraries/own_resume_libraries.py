"""How a library's trainer is told to save itself, and to go on from that: by its public ways as far as there are any.

Nothing is imported that the cell has not imported: a trainer is only met where its library is loaded.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Ask: TypeAlias = Callable[[], None]  # a safe point
Loaded: TypeAlias = Callable[[], None]  # it has taken up what it resumes from, and has not drawn for its next step
Parameters: TypeAlias = Mapping[str, Any]  # of the method that trains, by name
ENTRIES = ("train", "fit")  # the methods that train


class Resuming(Protocol):
    """One library; there are two."""

    library: str
    module: str  # that has its Trainer
    parameter: str  # of the method that trains: what to go on from

    def can_save(self, trainer: Any) -> bool:
        """Whether it has what `save` calls."""

    def step(self, trainer: Any) -> int:
        """How far it is."""

    def watched(self, trainer: Any, ask: Ask, loaded: Loaded) -> AbstractContextManager[None]:
        """While it trains, ask between its steps."""

    def save(self, trainer: Any, directory: Path) -> str:
        """Have it write a checkpoint of its own; what to resume from."""

    def resumed_from(self, path: str, parameters: Parameters) -> dict[str, Any]:
        """The arguments with which it goes on from there, beside those that it was called with."""


def resuming_of(trainer: Any) -> Resuming | None:
    """The library whose trainer this is."""
    return next((one for one in _LIBRARIES if _is_a(trainer, one.module, "Trainer")), None)


class _Transformers:
    library, module, parameter = "transformers", "transformers.trainer", "resume_from_checkpoint"

    def can_save(self, trainer: Any) -> bool:
        return hasattr(trainer, "_save_checkpoint") and hasattr(trainer, "callback_handler")

    def step(self, trainer: Any) -> int:
        return int(trainer.state.global_step)

    @contextmanager
    def watched(self, trainer: Any, ask: Ask, loaded: Loaded) -> Iterator[None]:
        base: Any = sys.modules["transformers.trainer_callback"].TrainerCallback

        begun = False

        class Between(base):  # type: ignore[misc]  # an untyped library's
            # At the begin of a step, for what belongs to the last one's end (logs, evaluation, saving) comes after it.
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                nonlocal begun
                if not begun:
                    begun = True
                    loaded()
                with _without(self, trainer.callback_handler, "callbacks"):
                    ask()

        between = Between()
        trainer.callback_handler.callbacks.append(between)
        try:
            yield
        finally:
            _remove(between, trainer.callback_handler.callbacks)

    def save(self, trainer: Any, directory: Path) -> str:
        # With arguments of its own: no checkpoint of the user's may be pushed out or uploaded for it.
        own = trainer.args
        trainer.args = copy.copy(own)
        changed = {
            "output_dir": str(directory),
            "save_only_model": False,
            "push_to_hub": False,
            "save_total_limit": None,
        }
        vars(trainer.args).update(changed)
        try:
            trainer._save_checkpoint(getattr(trainer, "model_wrapped", trainer.model), None)
        finally:
            trainer.args = own
        [made] = directory.glob("checkpoint-*")
        for states in made.glob("rng_state*"):
            states.unlink()  # ours are put back; and with a newer torch, an older version cannot read its own
        return str(made)

    def resumed_from(self, path: str, parameters: Parameters) -> dict[str, Any]:
        return {self.parameter: path}


class _Lightning:
    parameter = "ckpt_path"

    def __init__(self, library: str, package: str) -> None:
        self.library, self._package = library, package
        self.module = f"{package}.trainer.trainer"

    def can_save(self, trainer: Any) -> bool:
        return hasattr(trainer, "save_checkpoint") and isinstance(getattr(trainer, "callbacks", None), list)

    def step(self, trainer: Any) -> int:
        return int(trainer.global_step)

    @contextmanager
    def watched(self, trainer: Any, ask: Ask, loaded: Loaded) -> Iterator[None]:
        base: Any = sys.modules[f"{self._package}.callbacks"].Callback
        step = trainer.global_step

        class Between(base):  # type: ignore[misc]  # an untyped library's
            def on_train_start(self, *_: Any) -> None:
                nonlocal step
                step = trainer.global_step
                others = [one for one in trainer.callbacks if one is not self]
                trainer.callbacks = [*others, self]  # the last, after the user's own saving
                loaded()

            def on_train_batch_end(self, *_: Any) -> None:
                # In the midst of accumulating, gradients would be lost; behind an epoch's last batch, its validation.
                if trainer.global_step != step and not getattr(trainer, "is_last_batch", False):
                    self.ask()

            def on_train_epoch_end(self, *_: Any) -> None:
                self.ask()

            def ask(self) -> None:
                nonlocal step
                step = trainer.global_step
                with _without(self, trainer, "callbacks"):
                    ask()

            def __reduce__(self) -> Any:
                return base, ()  # to a process that the trainer starts, in which there is no safe point

        between = Between()
        trainer.callbacks.append(between)
        try:
            yield
        finally:
            _remove(between, trainer.callbacks)

    def save(self, trainer: Any, directory: Path) -> str:
        # What it was measuring when it was left would now be begun a second time, which it refuses.
        getattr(trainer.profiler, "current_actions", {}).clear()
        path = str(directory / "own.ckpt")
        trainer.save_checkpoint(path)
        return path

    def resumed_from(self, path: str, parameters: Parameters) -> dict[str, Any]:
        # It has just been written by ourselves, and may hold any object of the user's.
        plain = {"weights_only": False} if "weights_only" in parameters else {}
        return {self.parameter: path, **plain}


_LIBRARIES: tuple[Resuming, ...] = (
    _Transformers(),
    _Lightning("lightning", "lightning.pytorch"),
    _Lightning("pytorch_lightning", "pytorch_lightning"),
)


def _is_a(thing: Any, module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(thing, found)


@contextmanager
def _without(callback: Any, owner: Any, name: str) -> Iterator[None]:
    """A callback of ours is no part of what is saved. Another list meanwhile: the library is walking along this one."""
    whole = getattr(owner, name)
    setattr(owner, name, [one for one in whole if one is not callback])
    try:
        yield
    finally:
        setattr(owner, name, whole)


def _remove(callback: Any, callbacks: list[Any]) -> None:
    if callback in callbacks:
        callbacks.remove(callback)
