"""Keeps compilers out of a trace: torch.compile and torch.jit become the identity, and torch._dynamo is not imported.

Every dispatch mode and optimizer step imports it to say that it is not to be compiled, which takes 2 s and 50 MB. Who
wants more of it than that, a library that looks for its classes, gets the real one after all.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

COMPILED = "torch.compile taken as eager"
_NAME = "torch._dynamo"
_SOURCE = f"{_NAME}.source"
# Parts that import nothing of the rest: read at the making of a fake mode; and what transformers has for its masks.
_CONFIG, _OPERATORS = f"{_NAME}.config", f"{_NAME}._trace_wrapped_higher_order_op"


def begin(note: Callable[[str], None]) -> None:
    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        # The eager estimate is the safe one: a published language model takes about 15 % less memory compiled.
        if model is None:
            return compile
        if isinstance(model, FunctionType):  # libraries compile some of theirs at their import, and may call none
            return _noted(model, note)
        note(COMPILED)
        if isinstance(model, torch.nn.Module):
            _mark(model)
        return model

    def compile_itself(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        note(COMPILED)
        _mark(self)

    torch.compile = compile
    torch.nn.Module.compile = compile_itself  # type: ignore[method-assign]

    # TorchScript neither compiles what a trace puts in place of torch's own functions, nor traces tensors without
    # values. Trackers trace each model that they draw.
    def as_written(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, torch.nn.Module):  # libraries script their own functions
            note("torch.jit taken as eager")
        return _answers_as_script(obj)

    for name in ("script", "trace", "trace_module", "freeze", "optimize_for_inference"):
        setattr(torch.jit, name, as_written)
    torch.jit.save = lambda *args, **kwargs: None
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = _NoDynamo(_NAME)
        sys.modules[_SOURCE] = _NoSources(_SOURCE)
        sys.meta_path.insert(0, _RealParts())


def _mark(model: torch.nn.Module) -> None:
    """So that it looks as compiled as it will be, with all that is compiled into it."""
    for module in model.modules():
        if module._compiled_call_impl is None:
            module._compiled_call_impl = _AsWritten(module)


class _AsWritten:
    """The call of a module, where torch looks for its compiled one."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self._module()
        assert module is not None  # it is being called
        return module._call_impl(*args, **kwargs)


def _noted(fn: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        note(COMPILED)
        return fn(*args, **kwargs)

    return called


def _answers_as_script(obj: Any) -> Any:
    """A module or function that has what is asked of a compiled one besides: a graph that is empty, and no file."""
    answers = {"graph": torch._C.Graph(), "inlined_graph": torch._C.Graph(), "code": "", "save": lambda *a, **k: None}
    for name, answer in answers.items():
        if not isinstance(obj, type) and not hasattr(obj, name):
            with suppress(AttributeError, TypeError):  # a bound method has no attributes of its own
                setattr(obj, name, answer)
    return obj


class _NoDynamo(ModuleType):
    """Answers what torch asks all the time."""

    __path__ = [str(Path(torch.__file__).with_name("_dynamo"))]

    def disable(self, fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        return fn if fn is not None else lambda fn: fn

    def assume_constant_result(self, fn: Any) -> Any:
        return fn

    allow_in_graph = forbid_in_graph = assume_constant_result  # transformers marks some of its functions so

    def graph_break(self, *args: Any, **kwargs: Any) -> None: ...

    mark_static_address = mark_static = mark_dynamic = maybe_mark_dynamic = graph_break

    def __getattr__(self, name: str) -> Any:
        if name in ("__spec__", "__file__", "__wrapped__"):
            raise AttributeError(name)
        return getattr(_the_real_one(), name)


class _NoSources(ModuleType):
    """Names for where tensors come from: asked for at each that becomes fake, used for symbolic shapes only."""

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("Source"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None})


def _the_real_one() -> ModuleType:
    if isinstance(sys.modules.get(_NAME), _NoDynamo):
        # With all its parts, which would else not become attributes of the new module.
        for name in [name for name in sys.modules if name.startswith(_NAME)]:
            if name != _OPERATORS:  # which can be registered once
                del sys.modules[name]
        del torch._dynamo
    return importlib.import_module(_NAME)


class _RealParts:
    """Finds a submodule by importing the whole first: one that is loaded without it would be loaded twice."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        stands_in = isinstance(sys.modules.get(_NAME), _NoDynamo)
        if not (stands_in and name.startswith(f"{_NAME}.") and name not in (_CONFIG, _OPERATORS)):
            return None
        _the_real_one()
        importlib.import_module(name)
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run."""
