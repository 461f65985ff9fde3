"""Modules of TorchScript: the archive that torch.jit.save makes of one, and its parameters and buffers as tensors of
the notebook's, for an optimizer may hold them, too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch._jit_internal import createResolutionCallbackFromClosure
from torch.jit._recursive import ScriptMethodStub
from torch.jit._script import RecursiveScriptModule
from torch.jit.frontend import get_jit_def

from ...system.objects import of_type
from ...system.unheard import unheard
from ..kind import Kind, Pickler, Reduced

# What its compiled half has, or what is made with it.
_MADE = frozenset(("_initializing", "_c", "_parameters", "_buffers", "_modules", "_concrete_type", "forward"))


def find(cls: type) -> Kind:
    if cls is ScriptMethodStub:
        return METHOD
    return COMPILED if issubclass(cls, RecursiveScriptModule) else AROUND_ONE


def reduce_module(module: RecursiveScriptModule, pickler: Pickler) -> Reduced:
    whole, place = _whole(module)
    if whole is not module:
        return part_of, (whole, place)
    archive = io.BytesIO()
    try:
        with _not_deprecated():
            torch.jit.save(module, archive)
    except RuntimeError as e:  # it calls Python's functions
        why = str(e).strip().splitlines()[0].rstrip(".")
        return pickler.refuse(
            module, f"a module of TorchScript that torch.jit.save cannot save ({why}). Train what it was made of."
        )
    return load_again, (archive.getvalue(),), module_state(module), None, None, fill_module


def _whole(module: RecursiveScriptModule) -> tuple[RecursiveScriptModule, str]:
    """The outermost module of which it is a part, and its name in there: they share what is compiled."""
    found, place = module, ""
    for one in of_type(RecursiveScriptModule):
        names = [name for name, part in one.named_modules(remove_duplicate=False) if part is module]
        if names and len(names[0]) > len(place):
            found, place = one, names[0]
    return found, place


def part_of(whole: RecursiveScriptModule, place: str) -> Any:
    return dict(whole.named_modules(remove_duplicate=False))[place]


def load_again(archive: bytes) -> Any:
    with _not_deprecated():
        return torch.jit.load(io.BytesIO(archive), map_location="cpu")


@contextmanager
def _not_deprecated() -> Iterator[None]:
    """What torch says of TorchScript the notebook has heard."""
    with unheard(DeprecationWarning, FutureWarning):  # by the version of torch
        yield


_State = list[tuple[str, dict[str, Any], dict[str, Any]]]


def module_state(module: RecursiveScriptModule) -> _State:
    """Of each module in it: what it is called, what its compiled half holds, and what was put on it from Python."""
    return [(name, dict(_attributes(part)), _own(part)) for name, part in module.named_modules(remove_duplicate=False)]


def _attributes(part: RecursiveScriptModule) -> Iterator[tuple[str, Any]]:
    for name in part._concrete_type.get_attributes():
        if part._c.hasattr(name):
            yield name, part._c.getattr(name)


def _own(part: RecursiveScriptModule) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if name not in _MADE}


def module_mark(module: RecursiveScriptModule) -> Any:
    """By what its tensors are, and by what all else reads as: its compiled half makes numbers and lists anew."""
    return [
        (
            name,
            [(one, id(v) if isinstance(v, torch.Tensor) else repr(v)) for one, v in sorted(attributes.items())],
            [(one, id(v)) for one, v in own.items()],
        )
        for name, attributes, own in module_state(module)
    ]


def fill_module(module: RecursiveScriptModule, state: _State) -> None:
    parts = dict(module.named_modules(remove_duplicate=False))
    for name, attributes, own in state:
        part = parts[name]
        for attribute, value in attributes.items():
            if part._c.getattr(attribute) is not value:
                part._c.setattr(attribute, value)
        for attribute in _own(part).keys() - own.keys():
            del part.__dict__[attribute]
        part.__dict__.update(own)


def reduce_around_one(module: torch.jit.ScriptModule, pickler: Pickler) -> Reduced:
    return make_around_one, (type(module),), around_state(module), None, None, fill_around_one


def make_around_one(cls: type[torch.jit.ScriptModule]) -> Any:
    return cls.__new__(cls)


def around_state(module: torch.jit.ScriptModule) -> dict[str, Any]:
    return dict(vars(module))


def fill_around_one(module: torch.jit.ScriptModule, state: dict[str, Any]) -> None:
    module.__dict__.clear()
    module.__dict__.update(state)


def reduce_method(stub: ScriptMethodStub, pickler: Pickler) -> Reduced:
    """What a class of the notebook keeps of a method until it is compiled, with each module anew."""
    return method_again, (stub.original_method,)


def method_again(method: FunctionType) -> ScriptMethodStub:
    def named(name: str) -> Any:
        return createResolutionCallbackFromClosure(method)(name)  # which copies the globals, and they are not all here

    return ScriptMethodStub(named, get_jit_def(method, method.__name__, self_name="ScriptModule"), method)


METHOD = Kind(reduce=reduce_method)
COMPILED = Kind(reduce=reduce_module, state=module_state, fill=fill_module, mark=module_mark)
AROUND_ONE = Kind(reduce=reduce_around_one, state=around_state, fill=fill_around_one)  # as torch.jit.trace makes
