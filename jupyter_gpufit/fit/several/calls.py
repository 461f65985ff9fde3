"""A cell's run on one of several ranks: each call of a model computes this rank's samples, and returns all of them.

    with around(group):
        ...  # the cell, the same on every rank

The outermost call of a module with parameters, where gradients are wanted, is a model's forward. Of the tensors with
samples the rank takes its own. What the model returns is put together, so that the cell's own loss, metrics and prints
see the whole batch; the gradients of its parameters are sums over the ranks, wherever they are asked for. All else, and
forwards without gradients, every rank computes alike, of whole batches.

The first call of each kind is computed of the whole batch, too, without keeping anything for a backward: it shows how
each function goes with samples (forward.py), and what the result must be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from ...errors import CannotPart, GpufitError
from ..rungs.again import calls_through
from ..sharing import GRADIENTS, PARAMETERS
from .again import functions_seen
from .alike import StepsAlike, same_call
from .beside import with_state
from .forward import WithRows
from .given import BatchGiven, batch_of, fits, given_to, guesses, shapes_beside
from .gradients import gradients_in
from .group import Group
from .learning import Runs, learned
from .optimizers import states_split
from .script import Script
from .shards import Shards, in_parts
from .sight import AsItIs, Sight, with_whole
from .state import StateBefore

_NUMBERS = 32  # numbers among the arguments, as a step's, of which each may go another way
_TRIES = 64  # scripts of one kind of call; a model that needs more does something else each time


def reraised(error: CannotPart) -> NoReturn:
    raise error


@contextmanager
def around(
    group: Group,
    *,
    split: int = 0,
    say: Callable[[str], None] = lambda text: None,
    is_whole: Callable[[CannotPart], None] = reraised,
) -> Iterator[Callable[..., None]]:
    """Have what is run here mean the same on all ranks as on one device.

    `split`: what of the training is in parts, see fit/sharing.py; `say`: what becomes of it that the user should know;
    `is_whole`: told of each model that cannot be computed in parts, which each rank then computes of whole batches.
    Who goes on alone calls what is given here first.
    """
    if group.size == 1:
        yield _nothing
        return
    sight = Sight(group)
    names = WeakIdKeyDictionary()  # of parameters
    shards = Shards(group, parameters=split >= PARAMETERS) if split >= GRADIENTS else None
    with ExitStack() as stack:
        stack.enter_context(sight)
        stack.enter_context(functions_seen(sight))
        stack.enter_context(calls_through(lambda real: _Models(group, sight, real, names, shards, is_whole).function()))
        hook = register_optimizer_step_pre_hook(StepsAlike(group, names))
        stack.callback(hook.remove)
        if shards is not None:
            stack.enter_context(in_parts(shards))
        if split:
            yield stack.enter_context(states_split(group, say, shards))
        else:
            yield _nothing


def _nothing(**_: bool) -> None:
    """There is nothing to leave."""


class _Models:
    """All calls of modules."""

    def __init__(
        self,
        group: Group,
        sight: Sight,
        real: Callable[..., Any],
        names: Any,
        shards: Shards | None,
        is_whole: Callable[[CannotPart], None],
    ) -> None:
        self._group, self._sight, self._real, self._names, self._shards = group, sight, real, names, shards
        self._is_whole = is_whole
        self._whole: WeakSet[nn.Module] = WeakSet()
        self._thread = threading.get_ident()
        self._inside = False
        self._known: WeakKeyDictionary[nn.Module, dict[Any, dict[Any, _Kind]]] = WeakKeyDictionary()

    def function(self) -> Callable[..., Any]:
        def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            inside = self._inside or self._sight.forward is not None
            if inside or threading.get_ident() != self._thread:
                rows = self._sight.forward
                if isinstance(rows, WithRows) and isinstance(module, nn.RNNBase):
                    with self._sight.inside(AsItIs()):
                        args, kwargs = with_state(rows.group, rows.share, args, kwargs)
                return self._real(module, *args, **kwargs)
            self._inside = True
            try:
                return self._forward(module, args, kwargs)
            finally:
                self._inside = False

        return _call_impl

    def _forward(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        with self._sight.inside(AsItIs()):
            args, kwargs = with_whole(self._group, args), with_whole(self._group, kwargs)
        given = given_to(module, args, kwargs)
        if not _trains(module, given):
            return self._real(module, *args, **kwargs)
        for name, p in module.named_parameters():
            self._names[p] = name
        same_call(self._group, type(module).__name__, given.names, [t for _, t in given.tensors])
        if self._shards is not None:
            self._shards.begin_forward(module.parameters())
            gradients_in(self._shards).begin_forward(module.parameters())
        if module not in self._whole:
            try:
                self._refuse(module)
                kind = self._kind(module, given)
                if kind is not None:
                    return kind.run(Runs(self._group, self._sight, self._real, module), given)
            except CannotPart as error:
                self._is_whole(error)
                self._whole.add(module)
        return self._real(module, *args, **kwargs)

    def _refuse(self, module: nn.Module) -> None:
        name = type(module).__name__
        if torch._C._current_graph_task_id() != -1:
            raise CannotPart(name, "it is called in a backward")
        for one in module.modules():
            if one._backward_hooks or one._backward_pre_hooks:
                raise CannotPart(name, "it has hooks that look at gradients inside of it")
            if isinstance(one, torch.jit.ScriptModule):
                raise CannotPart(name, "it is compiled by TorchScript")
            if one._compiled_call_impl is not None or type(one).__module__.startswith("torch._dynamo"):
                raise CannotPart(name, "it is compiled by torch.compile")

    def _kind(self, module: nn.Module, given: BatchGiven) -> _Kind | None:
        """Calls that go alike; None: there is no sample for each rank."""
        found = guesses(module, given)
        if not found or batch_of(given, found[0]) < self._group.size:
            return None
        words, numbers = given.told
        key = (
            str(given.spec),
            words,
            tuple((at, t.dim(), t.dtype, t.requires_grad) for at, t in given.tensors),
            tuple(batch_of(given, guess) // self._group.size < 2 for guess in found),  # one sample may be squeezed
            hash(tuple(one.training for one in module.modules())),
            tuple(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")),
        )
        of_numbers = self._known.setdefault(module, {}).setdefault(key, {})
        kind = of_numbers.get(numbers) or _Kind()
        if len(of_numbers) < _NUMBERS:  # else a number that is another one each time is compared each time
            of_numbers[numbers] = kind
        return kind


def _trains(module: nn.Module, given: BatchGiven) -> bool:
    """Whether gradients are wanted of a module that has something to learn, or through it."""
    if not torch.is_grad_enabled():
        return False
    parameters = [*module.parameters()]
    through = any(t.requires_grad for _, t in given.tensors)
    return any(p.requires_grad for p in parameters) or (bool(parameters) and through)


class _Kind:
    """Calls of one model with one kind of arguments."""

    def __init__(self) -> None:
        self._guess: dict[int, int] | None = None
        self._scripts: list[Script] = []
        self._by_shapes: dict[Any, Script] = {}

    def run(self, runs: Runs, given: BatchGiven) -> Any:
        guess = self._guess
        if guess is None:
            return self._learned(runs, given)
        if not guess or batch_of(given, guess) < runs.group.size:
            return runs.plain(given)
        if not fits(given, guess):
            return self._learned(runs, given)
        shapes = shapes_beside(given, guess)
        made, self._by_shapes[shapes] = self._as_known(runs, given, guess, self._by_shapes.get(shapes))
        return made

    def _as_known(
        self, runs: Runs, given: BatchGiven, guess: dict[int, int], likely: Script | None
    ) -> tuple[Any, Script]:
        """Sentences of another length go the same way, loops over their words another; some go one way or the other."""
        before = StateBefore(runs.module)
        known = [likely] if likely is not None else []
        for script in [*known, *(one for one in reversed(self._scripts) if one is not likely)]:
            try:
                return runs.with_rows(given, guess, script), script
            except (GpufitError, torch.OutOfMemoryError):
                raise
            except Exception:  # also where rows meet what is whole this time; what is the cell's own comes up again
                before.restore()
        return self._learned(runs, given), self._scripts[-1]

    def _learned(self, runs: Runs, given: BatchGiven) -> Any:
        """As the whole batch shows it to be."""
        if len(self._scripts) >= _TRIES:
            raise CannotPart(runs.name, "it does something else in each call")
        self._guess, script, made = learned(runs, given, self._guess)
        self._scripts.append(script)
        return made
