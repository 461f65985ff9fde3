"""Tensors: what they look like is in the graph, and their bytes are in the memory beside it (storages).

Loaded only where torch is. Autograd graphs do not travel: a variable that is a tensor with a live one is refused on the
way in; one inside of an object, and what a cell computed, refuses a gradient where it arrives. But for tensors whose
graph nobody can tell from another one (see flowing, slopes).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from ...devices import sides
from ..kind import Kind, Pickler, Reduced
from ..refusals import why_not
from . import random_numbers, storages
from .flowing import flowing, flows_nowhere, graph_stayed, nearest_nodes
from .generic import reduce_generic
from .instances import INSTANCE, attributes, fill_instance, instance_state, make
from .slopes import Slope, sloped, slopes_of
from .standing_workers import BEGIN_ANEW, seed_of, that_stands

_OF_TORCH = (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__)
_untouched = torch._C.DisableTorchFunctionSubclass  # inside it, subclasses cannot see that we look


def find(cls: type) -> Kind | None:
    if issubclass(cls, torch.Tensor):
        return Kind(reduce=reduce_tensor, state=tensor_state, fill=fill_tensor, mark=tensor_mark)
    if issubclass(cls, Optimizer):
        return Kind(reduce=reduce_optimizer, state=INSTANCE.state, fill=fill_instance)
    if issubclass(cls, DataLoader) and why_not(cls) is None:
        return Kind(reduce=reduce_loader, state=loader_state, fill=fill_loader)
    if issubclass(cls, torch._C.Generator):
        return random_numbers.KIND
    if issubclass(cls, torch.Stream):
        return Kind(reduce=reduce_stream)
    if issubclass(cls, torch.Event):
        return Kind(reduce=reduce_event)
    if cls.__module__ == "torch._dynamo.eval_frame" and cls.__name__ == "OptimizedModule":
        from .compiled import COMPILED_MODULE

        return COMPILED_MODULE
    if cls is torch.jit.ScriptFunction:
        from .compiled import SCRIPTED

        return SCRIPTED
    if issubclass(cls, torch.jit.ScriptModule) or cls.__name__ == "ScriptMethodStub":
        from . import scripted

        return scripted.find(cls)
    return storages.KINDS.get(cls)


def is_plain(t: torch.Tensor) -> bool:
    """Whether a tensor is a view of a storage and nothing more; torch itself takes the others apart into such."""
    return (
        t.layout is torch.strided
        and t.device.type in ("cpu", "cuda")
        and type(t).__reduce_ex__ in _OF_TORCH
        and not (t.is_quantized or t.is_nested or t.is_conj() or t.is_neg())
        and not torch.utils._python_dispatch.is_traceable_wrapper_subclass(t)
    )


def reduce_tensor(t: torch.Tensor, pickler: Pickler) -> Reduced:
    with _untouched():
        if is_lazy(t):
            return make_lazy, lazy_parts(t)
        if not pickler.back and t.device.type not in ("cpu", "meta"):
            return pickler.refuse(
                t,
                f"a tensor on {t.device}, in the kernel's own process. Move it to the CPU first, with .cpu();"
                " the cell can move it to its GPU.",
            )
        to_come = id(t) in pickler.made_anew
        stayed = t.grad_fn is not None and graph_stayed(t)
        lives = not to_come and t.grad_fn is not None and not stayed and has_live_graph(t)
        flows = lives or (not to_come and t.grad_fn is not None and (stayed or pickler.back))
        stays = flows and not (lives and is_plain(t) and flows_nowhere(t))
        if stays and lives and type(t) is torch.Tensor and is_plain(t) and (found := slopes_of(t)) is not None:
            state = tensor_state(t)
            return make_sloped, (state[1], state[2], *found, sides.on_device(state[1])), state, None, None, fill_tensor
        if stays and t.grad_fn is not None and not (pickler.back or stayed):
            why = (
                f"a tensor that is part of a live autograd graph ({t.grad_fn.name()}), which cannot be copied."
                " Detach it first, with .detach(), or compute it inside the cell."
            )
            if _cannot_stay(t):
                return pickler.refuse(t, why)
            # By its name it is there to be used; what a module keeps of its last forward mostly is not.
            pickler.not_by_name[id(t)] = why
            pickler.graphs_stay.append(t)
        if t.is_meta and type(t).__reduce_ex__ in _OF_TORCH:
            return make_meta, (type(t), t.dtype, tuple(t.size()), t.stride(), t.requires_grad)
        if is_plain(t):
            state = tensor_state(t)
            if flows:
                name = t.grad_fn.name() if stays and t.grad_fn is not None else ""
                made = type(t), state[1], state[2], stays, sides.on_device(state[1]), name
                return make_flowing, made, state, None, None, fill_tensor
            if sides.on_device(state[1]):
                return make_device_tensor, (type(t), state[1], state[2]), state, None, None, fill_tensor
            return make_tensor, (type(t), t.dtype), state, None, None, fill_tensor
        t = t.detach() if t.grad_fn is not None else t
        if type(t) is torch.Tensor and (parts := sides.parts(t)) and sides.on_device(parts[-1].untyped_storage()):
            return make_sparse, (t.layout, parts, tuple(t.size()), t.layout is torch.sparse_coo and t.is_coalesced())
        return reduce_generic(t, pickler)


def lazy_parts(t: Any) -> tuple[Any, ...]:
    """Of a parameter or buffer that gets its shape at the first forward: it says only the half to pickle."""
    return type(t), t.requires_grad, str(t.device), t.data.dtype, sides.on_device(t.untyped_storage()), dict(vars(t))


def make_lazy(
    cls: Any, requires_grad: bool, device: str, dtype: torch.dtype, on_device: bool, own: dict[str, Any]
) -> Any:
    with _untouched():
        made = sides.here.lazy(cls, requires_grad, dtype) if on_device else cls(requires_grad, device, dtype)
        vars(made).update(own)
        return made


def _cannot_stay(t: torch.Tensor) -> bool:
    """Where a leaf would arrive, so that its gradients went nowhere in silence, or one without what hangs on it."""
    return type(t) is not torch.Tensor or not is_plain(t) or t.retains_grad or bool(t._backward_hooks)


def make_tensor(cls: type, dtype: torch.dtype) -> torch.Tensor:
    empty = torch.empty(0, dtype=dtype, device="cpu")
    return empty if cls is torch.Tensor else _as_class(cls, empty)


def make_device_tensor(cls: type, storage: torch.UntypedStorage, looks: tuple[Any, ...]) -> torch.Tensor:
    """In one go, since what an estimate makes of it cannot be given other memory later."""
    with _untouched():
        made = sides.here.tensor(storage, *looks)
        return made if cls is torch.Tensor else sides.here.as_class(cls, made)


def make_sparse(
    layout: torch.layout, parts: list[torch.Tensor], size: tuple[int, ...], coalesced: bool
) -> torch.Tensor:
    with _untouched():
        return sides.here.sparse(layout, parts, size, coalesced)


def _placed(storage: torch.UntypedStorage, looks: tuple[Any, ...], on_device: bool) -> torch.Tensor:
    dtype, *look = looks
    if on_device:
        return sides.here.tensor(storage, *looks)
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, *look)


def make_flowing(
    cls: type,
    storage: torch.UntypedStorage,
    looks: tuple[Any, ...],
    stays: bool = False,
    on_device: bool = True,
    name: str = "",
) -> torch.Tensor:
    """Of its size at once, since a gradient has that of what was made. `name`: of what has computed it."""
    with _untouched():
        made = _placed(storage, looks, on_device)
        t = flowing(made, stays=stays, name=name)
        t.data = made
        return t if cls is torch.Tensor else sides.here.as_class(cls, t)


def make_sloped(
    storage: torch.UntypedStorage, looks: tuple[Any, ...], slopes: list[Slope], once: bool, on_device: bool = True
) -> torch.Tensor:
    with _untouched():
        return sloped(_placed(storage, looks, on_device), slopes, once)


def make_meta(
    cls: type, dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> torch.Tensor:
    made = torch.empty_strided(size, stride, dtype=dtype, device="meta")
    return (made if cls is torch.Tensor else _as_class(cls, made)).requires_grad_(requires_grad)


def _as_class(cls: type, t: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = torch.Tensor._make_subclass(cls, t, False)
    return made


def tensor_state(t: torch.Tensor) -> Any:
    with _untouched():
        if not is_plain(t):
            return t.detach()
        looks = (t.dtype, t.storage_offset(), tuple(t.size()), t.stride())
        leaf = _is_leaf(t)
        grad = t.grad if leaf else None
        if grad is not None and sides.on_device(t.untyped_storage()):
            sides.note(grad)
        extra = (t._backward_hooks, getattr(t, "_post_accumulate_grad_hooks", None)) if leaf else (None, None)
        own = dict(t.__dict__) or None
        return type(t), t.untyped_storage(), looks, t.device.type == "cpu", t.requires_grad, grad, own, extra


def _is_leaf(t: torch.Tensor) -> bool:
    try:
        return t.is_leaf
    except RuntimeError:  # one of a parameter's rows, `for row in weight`, after the parameter has changed
        return False


def tensor_mark(t: torch.Tensor) -> Any:
    with _untouched():
        if t.device.type == "cuda":
            return object()  # nothing tells whether its bytes have changed, so they go back
        return tensor_state(t) if is_plain(t) else (type(t), *(part.data_ptr() for part in sides.parts(t)))


def fill_tensor(t: torch.Tensor, state: Any) -> None:
    with _untouched(), torch.no_grad():
        if isinstance(state, torch.Tensor):
            t.data = state
            return
        cls, storage, (dtype, offset, size, stride), on_cpu, requires_grad, grad, own, (hooks, late_hooks) = state
        if storage.device.type == "cpu":  # else it was just made there, and has a device's or a fake's own ways
            new = torch.empty(0, dtype=dtype, device="cpu").set_(storage, offset, size, stride)
            _place(t, cls, new, moved=not on_cpu)
            t.__dict__.clear()
        t.__dict__.update(own or {})
        if _is_leaf(t):
            t.requires_grad_(requires_grad)
            if t.grad is not grad:
                t.grad = grad
            if t._backward_hooks is not hooks:
                t._backward_hooks = hooks
            if getattr(t, "_post_accumulate_grad_hooks", None) is not late_hooks:
                t._post_accumulate_grad_hooks = late_hooks


def _place(t: torch.Tensor, cls: type, new: torch.Tensor, *, moved: bool) -> None:
    if type(t) is not cls:  # a parameter of a lazy module that has its shape now
        t.data, t.__class__ = new, cls
    elif sides.is_told and sides.on_device(new.untyped_storage()) != sides.on_device(t.untyped_storage()):
        t.data = new  # the cell moved it, and left what shares its bytes here where it was
    elif moved and _same_look(t, new):
        t.data.copy_(new)  # it only went to a GPU, so whoever shares its bytes here sees the result
    elif t.data_ptr() != new.data_ptr() or not _same_look(t, new):
        t.data = new


def _same_look(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.device, a.size(), a.stride()) == (b.dtype, b.device, b.size(), b.stride())


def has_live_graph(t: torch.Tensor) -> bool:
    """Whether backward could still run through a tensor's graph: it cannot once it has freed what one node saved.

    Those nearest to the tensor tell: a backward begins there.
    """
    for node in nearest_nodes(t):
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                try:
                    getattr(node, name)
                except RuntimeError:
                    return False
    return True


def reduce_stream(stream: torch.Stream, pickler: Pickler) -> Reduced:
    return make_stream, ()


def make_stream() -> Any:
    """One of this process's: what an earlier cell has put on its own has long been done."""
    return torch.cuda.Stream()


def reduce_event(event: torch.Event, pickler: Pickler) -> Reduced:
    return make_event, ()


def make_event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def reduce_optimizer(optimizer: Optimizer, pickler: Pickler) -> Reduced:
    hooked = getattr(type(optimizer).step, "hooked", False)
    return make_optimizer, (type(optimizer), hooked), instance_state(optimizer), None, None, fill_instance


def make_optimizer(cls: type[Optimizer], hooked: bool) -> Optimizer:
    optimizer: Optimizer = object.__new__(cls)
    if hooked:  # what only wraps another one, as accelerate's, is not
        optimizer._patch_step_function()  # it hangs on the class, and in this process nobody has put it there yet
    return optimizer


def reduce_loader(loader: Any, pickler: Pickler) -> Reduced:
    call, args = make(loader, pickler)
    state = loader_state(loader)
    if state.get("_iterator") is not None:
        pickler.remarks.append(BEGIN_ANEW)
    return call, args, state, None, None, fill_loader


def loader_state(loader: Any) -> dict[str, Any]:
    """Of its standing worker processes only their seed: it starts new ones when it is used."""
    own, _ = attributes(loader)
    return {name: seed_of(value) if name == "_iterator" else value for name, value in (own or {}).items()}


def fill_loader(loader: Any, state: dict[str, Any]) -> None:
    iterator = vars(loader).get("_iterator")
    vars(loader).clear()
    vars(loader).update(state, _iterator=that_stands(iterator, state.get("_iterator")))
