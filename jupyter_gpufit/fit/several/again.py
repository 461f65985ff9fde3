"""What torch calls past every mode: users' autograd functions, those that TorchScript has compiled, and parts of a
forward that are computed again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction
from torch.jit import ScriptFunction
from torch.utils import checkpoint
from torch.utils._pytree import tree_leaves

from .drawn import AnyDraw, Unlike
from .forward import WithRows
from .functions import tensors_in
from .parts import mark, rows_of
from .sight import AsItIs, Sight
from .state import GeneratorsBefore, drawn_until_now

_GENERATOR = "_checkpoint_without_reentrant_generator"  # its options, and then the function's arguments
_AND_ARGUMENTS = f"{_GENERATOR}_impl"  # of torch 2.14: a tuple and a dict of arguments, and then its options


@contextmanager
def functions_seen(sight: Sight) -> Iterator[None]:
    """Have all of them seen."""
    apply, name = Function.__dict__["apply"], _AND_ARGUMENTS if hasattr(checkpoint, _AND_ARGUMENTS) else _GENERATOR
    generator = getattr(checkpoint, name)

    def seen(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made, forward = apply.__get__(None, cls), sight.forward
        if cls is checkpoint.CheckpointFunction:
            return made(_again(sight, args[0], args[2:], {}), *args[1:])
        if forward is None or cls.__module__.startswith(__package__):
            return made(*args, **kwargs)
        if cls.__module__ == checkpoint.__name__:
            return made(*args, **kwargs)
        with sight.inside(AsItIs()):
            out = forward.call(_named(made, cls.__name__), args, kwargs)
            if isinstance(forward, WithRows) and forward.learns and _draws_in_backward(out):
                raise Unlike(f"the backward of {cls.__name__} draws random numbers")
            return out

    def generated(fn: Any, *given: Any, **more: Any) -> Any:
        if name == _AND_ARGUMENTS:
            return generator(_again(sight, fn, *given), *given, **more)
        options = (
            sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in signature(generator).parameters.values()) - 1
        )
        return generator(_again(sight, fn, given[options:], more), *given, **more)

    def scripted(function: Any, *args: Any, **kwargs: Any) -> Any:
        forward = sight.forward
        if forward is None:
            return script(function, *args, **kwargs)
        with sight.inside(AsItIs()):
            return forward.call(_named(partial(script, function), function.name), args, kwargs)

    script = ScriptFunction.__call__
    ScriptFunction.__call__ = scripted  # type: ignore[method-assign, assignment]
    Function.apply = classmethod(seen)  # type: ignore[assignment, method-assign]
    setattr(checkpoint, name, generated)
    try:
        yield
    finally:
        ScriptFunction.__call__ = script  # type: ignore[method-assign]
        Function.apply = apply  # type: ignore[method-assign]
        setattr(checkpoint, name, generator)


def _draws_in_backward(made: Any) -> bool:
    """Tried, with ones: nobody sees there what is of samples, and each device would draw for its own alone."""
    made = [t for t in tree_leaves(made) if isinstance(t, torch.Tensor)]
    node = next((t.grad_fn for t in made if isinstance(t.grad_fn, BackwardCFunction)), None)
    if node is None or all(rows_of(t) is None for t in made):
        return False
    before, so_far, drawn = GeneratorsBefore(), drawn_until_now(), AnyDraw()
    try:
        with suppress(Exception), redirect_stdout(io.StringIO()), torch.no_grad(), drawn:
            node.apply(*map(torch.ones_like, made))
        return drawn.noted or drawn_until_now() != so_far
    finally:
        before.restore()


def _named(made: Callable[..., Any], name: str) -> Callable[..., Any]:
    def func(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    func.__name__ = name
    return func


def _seen_again(sight: Sight, function: Callable[..., Any]) -> Callable[..., Any]:
    """What is seen in a forward is seen in a backward: a large matrix may be used by pieces."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if torch._C._current_graph_task_id() == -1:
            return function(*args, **kwargs)
        with sight.entered(), sight.inside(AsItIs()):
            return function(*args, **kwargs)

    return run


def _again(sight: Sight, function: Callable[..., Any], args: Any, kwargs: Any) -> Callable[..., Any]:
    """What will run in backward goes on where it stands in the script, with samples where it has them now."""
    forward = sight.forward
    if not isinstance(forward, WithRows):
        return _seen_again(sight, function)
    at = forward.at
    rows = [rows_of(t) for t in tensors_in((args, kwargs))]

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal at
        if sight.forward is not None:
            at = forward.at
            return function(*args, **kwargs)
        for t, there in zip(tensors_in((args, kwargs)), rows, strict=True):
            mark(t, there)
        second = WithRows(forward.group, forward.share, forward.script, at=at)
        with sight.entered(), sight.inside(second), second.drawing():
            return function(*args, **kwargs)

    return run
