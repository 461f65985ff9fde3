"""The mode in which torch's functions take `cuda` for the slot: every call of one comes through here.

A call that names no device and moves nothing passes after one look into a table. What torch does inside a function of
its own does not come here again, and its questions are answered truthfully, so that it computes exactly as on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils import _device

from ...devices.sides import Side
from ...errors import NotOnASlot
from ..surface.asker import asked_by_torch
from ..types import names_cuda, on_host
from .budget import SlotRoom
from .half import quicken
from .side import CPU, CPU_AS_DEFAULT, SLOT, any_on_slot, note, side_named, side_of

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
Options = dict[str, Any]
Result = TypeVar("Result")

_TOO_MUCH = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")
_NO_GPU = re.compile(r"accelerator device when none|ATen_cuda|not compiled with CUDA")
_SPEAK_FOR_USER = ("torch.nn.modules.module", "torch.utils._pytree")  # Module.cpu(), tree_map(torch.Tensor.cpu, ...)
_LIKE = "empty_like full_like ones_like rand_like randint_like randn_like zeros_like"
_SPARSE = (
    "sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor"
)
_CONVOLUTIONS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
_PRODUCTS = "mm bmm addmm baddbmm"
_NEW = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros"


class SlotMode(TorchFunctionMode):
    """Takes `cuda` for the slot in calls of torch's functions, in the threads that enter it."""

    def __init__(self, budget: SlotRoom) -> None:
        super().__init__()
        self.budget = budget
        self._special = self._table()

    def __torch_function__(
        self, func: Function, types: Any, args: Arguments = (), kwargs: Options | None = None
    ) -> Any:
        special = self._special.get(func)
        try:
            if special is None:
                if kwargs and kwargs.get("device") is not None:
                    return self._make(func, args, kwargs)
                out = func(*args, **kwargs) if kwargs else func(*args)
                return self._computed(out, args, kwargs) if any_on_slot() else out
            return special(func, args, kwargs or {})
        except RuntimeError as error:
            self._explain(error, func)
            raise

    def __exit__(self, *why: object) -> None:
        # A mode that the cell entered and never left may lie above this one.
        stack = [torch.overrides._pop_mode() for _ in torch.overrides._get_current_function_mode_stack()]
        for mode in reversed(stack):
            if mode is not self:
                torch.overrides._push_mode(mode)

    def around(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """`function`, with the mode on while it runs: modes belong to a thread, and torch turns them off in its own."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Result:
            if self in torch.overrides._get_current_function_mode_stack():
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return run

    def _table(self) -> dict[Function, Callable[[Function, Arguments, Options], Any]]:
        tensor = torch.Tensor
        likes = [getattr(torch, name) for name in _LIKE.split()] + [getattr(tensor, name) for name in _NEW.split()]
        return {
            **dict.fromkeys(_device._device_constructors(), self._make),
            **dict.fromkeys((getattr(torch, name) for name in _SPARSE.split()), self._make_sparse),
            **dict.fromkeys(likes, self._make_like),
            **dict.fromkeys((torch.as_tensor, torch.asarray), self._adopt),
            torch.device: self._device,
            torch._C._nn._parse_to: self._parse_to,
            nn.functional.scaled_dot_product_attention: self._attend,
            **dict.fromkeys((getattr(torch, name) for name in _CONVOLUTIONS.split()), self._convolve),
            **dict.fromkeys((getattr(torch, name) for name in _PRODUCTS.split()), self._multiply),
            tensor.to: self._to,
            tensor.cuda: self._cuda,
            tensor.cpu: self._cpu,
            tensor.type: self._type,
            tensor.pin_memory: lambda _, args, __: args[0],
            tensor.record_stream: lambda *_: None,
            tensor.get_device: lambda func, args, _: 0 if self._looks_on_slot(args[0]) else func(*args),
            tensor.__repr__: self._show,
            _getter("grad"): self._grad,
            _getter("device"): lambda func, args, _: SLOT if self._looks_on_slot(args[0]) else func(*args),
            _getter("is_cuda"): lambda func, args, _: self._looks_on_slot(args[0]) or func(*args),
            _getter("is_cpu"): lambda func, args, _: not self._looks_on_slot(args[0]) and func(*args),
        }

    def _computed(self, out: Any, args: Arguments, kwargs: Options | None = None) -> Any:
        """What comes of a tensor on the slot is there, too; views share their note with the whole."""
        made = (out,) if isinstance(out, torch.Tensor) else out
        if not (isinstance(made, tuple | list) and made and isinstance(made[0], torch.Tensor)):
            return out  # a number, a shape, a list of a million numbers
        new = [one for one in made if isinstance(one, torch.Tensor) and side_of(one) is None]
        if new and (_any_on_slot(args) or (kwargs and _any_on_slot(kwargs.values()))):
            for one in new:
                if all(one is not given for given in args):  # host.copy_(moved) stays where it is
                    note(one, "slot")
                    self.budget.computed()
        return out

    def _grad(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """Gradients are made by the engine, which does not come through here."""
        found = func(*args)
        if found is not None and side_of(found) is None and side_of(args[0]) == "slot":
            note(found, "slot")
        return found

    def _show(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """A tensor's text names its device; it is made with the mode on, which torch has turned off by now."""
        if side_of(args[0]) != "slot":
            return func(*args, **kwargs)
        with self:
            return torch._tensor_str._str(args[0], **kwargs)

    def _looks_on_slot(self, tensor: torch.Tensor) -> bool:
        """What user code is told."""
        return side_of(tensor) == "slot" and not asked_by_torch("torch._tensor_str") and tensor.is_cpu

    def _make(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """A function that makes a tensor: on the host, unless a device is named or is the default."""
        side, kwargs = self._for_cpu(kwargs)
        if side is None and kwargs.get("device") is None:
            side = _by_default() or "host"
            if side == "host" and func is torch.tensor and args and isinstance(args[0], torch.Tensor):
                side = side_of(args[0])
        return self._noted(func(*args, **kwargs), side)

    def _make_sparse(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """On the memory of its values, and where they are, unless a device is named."""
        side, kwargs = self._for_cpu(kwargs)
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        if side is None and kwargs.get("device") is None:
            side = side_of(given[-1]) if given else _by_default()
        out = func(*args, **kwargs)
        if side is not None and any((side_of(one) or "host") != side for one in given):
            out = out.clone()
        return self._noted(out, side)

    def _make_like(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        side, kwargs = self._for_cpu(kwargs)
        if side is None and kwargs.get("device") is None:
            side = side_of(args[0])
        return self._noted(func(*args, **kwargs), side)

    def _adopt(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """as_tensor and asarray share the memory of what they are given, unless it is on the other side."""
        side, kwargs = self._for_cpu(kwargs)
        if side is None and kwargs.get("device") is None:
            side = _by_default()
        data, out = args[0] if args else None, func(*args, **kwargs)
        if isinstance(data, torch.Tensor):
            return self._arrive(data, out, side)
        return self._noted(out.clone() if side == "slot" else out, side or "host")

    def _device(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """torch.device(0), for which torch would look for a GPU; all other spellings it knows without one."""
        named = kwargs.get("device", args[0] if args else None)
        if len(args) + len(kwargs) == 1 and isinstance(named, int):
            return torch.device(SLOT.type, named)
        return func(*args, **kwargs)

    def _parse_to(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """Reads the arguments of Module.to(), which moves each tensor by itself."""
        if args and isinstance(args[0], int):
            args = (torch.device(SLOT.type, args[0]), *args[1:])
        device, *rest = func(*args, **kwargs)
        like = kwargs.get("tensor", args[0] if args else None)
        return (SLOT if side_of(like) == "slot" else device), *rest

    def _attend(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """`with sdpa_kernel(EFFICIENT_ATTENTION)` chooses how fast, not what; the CPU does not have them all."""
        try:
            return self._computed(func(*args, **kwargs), args, kwargs)
        except RuntimeError as error:
            if "No viable backend" not in str(error):
                raise
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            return self._computed(func(*args, **kwargs), args, kwargs)

    def _convolve(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        x = args[0] if args else kwargs.get("input")
        if isinstance(x, torch.Tensor) and x.dtype is torch.float16 and side_of(x) == "slot":
            quicken()
        return self._computed(func(*args, **kwargs), args, kwargs)

    def _multiply(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """Of which a GPU gives sums in a wider dtype than what is multiplied; the CPU multiplies in that."""
        if (wide := kwargs.get("out_dtype")) is None:
            return self._computed(func(*args, **kwargs), args, kwargs)
        kwargs = {name: value for name, value in kwargs.items() if name != "out_dtype"}
        wider = [one.to(wide) if isinstance(one, torch.Tensor) else one for one in args]
        return self._computed(func(*wider, **kwargs), args, kwargs)

    def _to(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        """All spellings: of a device, of a dtype, of another tensor, by position and by name."""
        tensor, *rest = args
        target = kwargs.get("device", kwargs.get("other", rest[0] if rest else None))
        if target is None or isinstance(target, torch.dtype):
            return self._computed(func(*args, **kwargs), args)
        if isinstance(target, torch.Tensor):
            return self._arrive(tensor, func(*args, **kwargs), side_of(target))
        side, named = self._for_cpu({**kwargs, "device": target})
        if "device" in kwargs:
            kwargs = named
        else:
            rest[0] = named["device"]
        return self._arrive(tensor, func(tensor, *rest, **kwargs), side)

    def _cuda(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        tensor, *rest = args
        side_named(kwargs.get("device", rest[0] if rest else None), self.budget.slot)
        out = tensor.to(CPU, memory_format=kwargs.get("memory_format", torch.preserve_format))
        return self._arrive(tensor, out, "slot")

    def _cpu(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        return self._arrive(args[0], func(*args, **kwargs), None if asked_by_torch(*_SPEAK_FOR_USER) else "host")

    def _type(self, func: Function, args: Arguments, kwargs: Options) -> Any:
        tensor, *rest = args
        kwargs = dict(kwargs)
        kind = kwargs.pop("dtype", rest[0] if rest else None)
        if kind is None:
            name: str = func(tensor)
            return name.replace("torch.", "torch.cuda.", 1) if self._looks_on_slot(tensor) else name
        if (of_cuda := names_cuda(kind)) is None:
            return self._computed(func(tensor, kind, *rest[1:], **kwargs), args)
        out = func(tensor, on_host(kind), *rest[1:], **kwargs)
        return self._arrive(tensor, out, "slot" if of_cuda else "host")

    def _arrive(self, tensor: torch.Tensor, out: torch.Tensor, side: Side | None) -> Any:
        """What has come to a side shares no memory with the other side."""
        known = side_of(tensor)
        if side is None:
            return self._computed(out, (tensor,))
        if out is tensor and known == side:
            return out
        if side == "host" and known is None and not any_on_slot():
            return out
        if out is tensor and nn.parameter.is_lazy(out):  # it refuses to be cloned, and has nothing yet that is shared
            lazy: Any = type(out)
            return self._noted(lazy(requires_grad=out.requires_grad, dtype=out.dtype), side)
        return self._noted(out.clone() if out is tensor else out, side)

    def _noted(self, out: Any, side: Side | None) -> Any:
        if isinstance(out, torch.Tensor):
            if side == "slot" and out.layout is torch.strided:
                self.budget.check(out.nbytes)
            note(out, side)
        return out

    def _for_cpu(self, kwargs: Options) -> tuple[Side | None, Options]:
        """The side that the options name, and the options as torch can serve them."""
        side = side_named(kwargs.get("device"), self.budget.slot)
        if side == "slot":
            kwargs = {**kwargs, "device": CPU}
        elif side == "host" and asked_by_torch(*_SPEAK_FOR_USER):
            side = None  # torch says "cpu" because it sees the CPU, and may mean the slot
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return side, kwargs

    def _explain(self, error: RuntimeError, func: Function) -> None:
        """Say what the CPU's errors mean on a slot."""
        if asked := _TOO_MUCH.search(str(error)):
            raise self.budget.exceeded(int(asked[1])) from error
        if "could not create a primitive" in str(error):
            why = "this CPU has no float16 for it. Use torch.bfloat16, or run the cell on a GPU."
            raise NotOnASlot(resolve_name(func) or str(func), self.budget.slot, why) from error
        if _NO_GPU.search(str(error)) and not isinstance(error, NotOnASlot):
            raise NotOnASlot(resolve_name(func) or str(func), self.budget.slot) from error


def _by_default() -> Side | None:
    """Where a tensor is made of which nobody says where, if somebody has said so for all."""
    return "slot" if _device.CURRENT_DEVICE == CPU_AS_DEFAULT else None


def _any_on_slot(found: Iterable[Any]) -> bool:
    for one in found:
        if isinstance(one, torch.Tensor):
            if side_of(one) == "slot":
                return True
        elif isinstance(one, tuple | list) and any(isinstance(t, torch.Tensor) and side_of(t) == "slot" for t in one):
            return True
    return False


def _getter(name: str) -> Function:
    """What torch passes as the function when an attribute of a tensor is read."""
    getter: Function = getattr(torch.Tensor, name).__get__
    return getter
