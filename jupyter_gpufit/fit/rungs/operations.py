"""What an operation of torch is given, and what it does with that: which bytes it looks at, and which it may change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from ...devices import sides
from ...errors import NotUnderPlan
from .host import is_fake

_BY_ROW, _BY_COLUMN = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
_PARTS = {  # what a sparse tensor holds, which has no storage of its own
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def tensors_in(found: Any) -> list[torch.Tensor]:
    """Of arguments, results and states."""
    return [t for t in tree_leaves(found) if isinstance(t, torch.Tensor)]


def given_to(found: Any) -> Iterator[torch.Tensor]:
    """The same, and in the place of sparse ones what they hold: dense tensors that somebody made before."""
    for t in tensors_in(found):
        if t.layout in _PARTS and not hasattr(t, "fake_device"):
            with torch._C.DisableTorchFunction():
                yield from (getattr(t, name)() for name in _PARTS[t.layout])
        else:
            yield t


def storage_of(t: torch.Tensor) -> torch.UntypedStorage | None:
    if is_traceable_wrapper_subclass(t):
        raise NotUnderPlan(f"A tensor of the class {type(t).__name__}", "its parts are hidden from torch")
    try:
        return t.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None  # sparse ones have none


def is_on_device(t: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    if is_fake(storage):
        fake_device = getattr(t, "fake_device", None)  # its class takes a second to import
        return fake_device is not None and fake_device.type not in ("cpu", "meta")
    return sides.on_device(storage)


def may_be_slots(storage: torch.UntypedStorage, given: torch.UntypedStorage) -> bool:
    """Whether what comes of this one, on the device, is there, too: on a slot that is noted later, see `is_hosts`."""
    return storage.device.type == given.device.type == "cpu"


def is_hosts(storage: torch.UntypedStorage | None) -> bool:
    """On a slot, what came of a tensor there, and was noted as the host's when the function had returned."""
    return storage is not None and getattr(storage, sides.NOTE, None) == "host"


def can_leave(storage: torch.UntypedStorage) -> bool:
    """Not what lies in memory that somebody else gave: a slot does not count it, and others may see it."""
    if is_fake(storage):
        return True
    return storage.resizable() and (storage.device.type != "cpu" or not storage.is_shared())


@cache
def does(func: Any) -> tuple[bool, tuple[tuple[int, str], ...] | None]:
    """Whether an operation looks at what it is given, and which of it it may change, by place and name; None: any."""
    arguments = [(at, argument.name, argument.alias_info) for at, argument in enumerate(func._schema.arguments)]
    if func.namespace == "prim":  # where a stand-in is
        return False, ()
    if func.namespace != "aten" or "batch_norm" in func._opname:
        return True, None  # norms change running statistics of which their schema says nothing, and who knows others
    writes = tuple((at, name) for at, name, alias in arguments if alias is not None and alias.is_write)
    aliases = any(alias is not None for _, _, alias in arguments)
    return bool(writes) or not aliases or func._opname == "as_strided" or _is_several(func), writes


def _is_several(func: Any) -> bool:
    """Made of others, which in inference mode are not seen: `reshape` and `to` return a view, or a copy."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def written(writes: tuple[tuple[int, str], ...] | None, args: Any, kwargs: Any) -> Any:
    """What an operation may change of what it is given."""
    if writes is None:
        return args, kwargs
    return [args[at] if at < len(args) else kwargs.get(name) for at, name in writes]
