"""Tensors as a process has them, on their devices and with their hooks, and the smaller things of torch.

What graph/ carries from one process to another is made for the way there and back; a snapshot is opened in a process
that goes on as if nothing had been. So tensors keep their device, and a storage that could be resized still can be.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.autograd.grad_mode import inference_mode
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from ...devices import sides
from ...graph.kind import Kind, Pickler, Reduced
from ...graph.kinds.flowing import flows_nowhere, graph_stayed, stays_out
from ...graph.kinds.generic import reduce_generic
from ...graph.kinds.instances import make_instance, reduce_instance
from ...graph.kinds.slopes import slopes_of
from ...graph.kinds.storages import own_storage
from ...graph.kinds.tensors import _OF_TORCH, is_plain, lazy_parts, make_flowing, make_lazy, make_meta, make_sloped
from ...graph.opening import Opener
from ...graph.refusals import why_not
from ...program import Program
from ...surroundings.past_modes import past_modes
from ...system.objects import but_tuples
from ..pickler import Unready
from .autograd import give_spent_graph, graph_of, look_at, looked_at, parts_with

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

_untouched = torch._C.DisableTorchFunctionSubclass
_CONTEXT = "_inference_mode_context"  # a C++ guard, made again by __enter__


def find(cls: type) -> Kind | None:
    if issubclass(cls, torch.Tensor):
        return Kind(reduce=reduce_tensor)
    if issubclass(cls, GradScaler):
        return Kind(reduce=reduce_scaler)
    if issubclass(cls, inference_mode):
        return Kind(reduce=reduce_inference_mode)
    if issubclass(cls, DataLoader) and why_not(cls) is None:
        return Kind(reduce=reduce_instance)  # with its standing workers, which loaders.py knows to take apart
    if issubclass(cls, torch._C.Generator):
        return Kind(reduce=reduce_generator)
    if issubclass(cls, torch.Stream):
        return Kind(reduce=reduce_stream)
    if issubclass(cls, torch.Event):
        return Kind(reduce=reduce_event)
    return _KINDS.get(cls)


def reduce_tensor(t: torch.Tensor, pickler: SnapshotPickler) -> Reduced:
    with _untouched():
        if is_lazy(t):
            return make_lazy, lazy_parts(t)
        graph, computed_by = graph_of(t)
        if graph == "live":
            if (shown := looked_at(t)) is not None:
                shape = (tuple(t.size()), t.stride(), t.storage_offset())
                return look_at, (shown, *shape), dict(t.__dict__) or None, None, None, fill_attributes
            if (parts := parts_with(t)) is not None:
                same = pickler.parts.setdefault(t.grad_fn, parts)  # one object for all outputs of one node
                return operator.getitem, (same, t.output_nr), dict(t.__dict__) or None, None, None, fill_attributes
            if is_plain(t) and (graph_stayed(t) or flows_nowhere(t)):
                look = (t.dtype, t.storage_offset(), tuple(t.size()), t.stride())
                made = type(t), t.untyped_storage(), look, stays_out(t)
                return make_flowing, made, dict(t.__dict__) or None, None, None, fill_attributes
            if type(t) is torch.Tensor and is_plain(t) and (found := slopes_of(t)) is not None:
                look = (t.dtype, t.storage_offset(), tuple(t.size()), t.stride())
                again = t.untyped_storage(), look, *found
                return make_sloped, again, dict(t.__dict__) or None, None, None, fill_attributes
            if not (isinstance(pickler.program, Program) and pickler.program.is_unread(t)):
                raise _live(t, computed_by)
        if t.is_meta and type(t).__reduce_ex__ in _OF_TORCH:
            return make_meta, (type(t), t.dtype, tuple(t.size()), t.stride(), t.requires_grad)
        if not is_plain(t):
            return reduce_generic(t if graph == "none" else t.detach(), pickler)
        looks = (t.dtype, t.storage_offset(), tuple(t.size()), t.stride(), t.is_inference())
        leaf = graph == "none"
        if leaf and t.grad is not None and (of_grad := graph_of(t.grad))[0] == "live":
            raise _live(t.grad, of_grad[1])  # also if a variable has it that nobody reads
        hooks = (t._backward_hooks, getattr(t, "_post_accumulate_grad_hooks", None)) if leaf else (None, None)
        state = (t.requires_grad, computed_by, t.grad if leaf else None, dict(t.__dict__) or None, hooks)
        return make_tensor, (type(t), t.untyped_storage(), looks), state, None, None, fill_tensor


def _live(t: torch.Tensor, computed_by: str) -> Unready:
    what = f"a tensor that still carries its autograd graph ({computed_by})"
    return Unready(t, what, f".{'item' if t.numel() == 1 else 'detach'}()")


def make_tensor(cls: type, storage: torch.UntypedStorage, looks: tuple[Any, ...]) -> torch.Tensor:
    dtype, offset, size, stride, inference = looks
    with _untouched(), torch.inference_mode(inference), torch.no_grad():
        made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
        return made if cls is torch.Tensor else torch.Tensor._make_subclass(cls, made, False)


def fill_tensor(t: torch.Tensor, state: tuple[Any, ...]) -> None:
    requires_grad, computed_by, grad, own, (hooks, late_hooks) = state
    with _untouched():
        t.__dict__.update(own or {})
        if computed_by:
            give_spent_graph(t, computed_by)
        elif requires_grad:
            t.requires_grad_(True)
        if grad is not None:
            t.grad = grad
        if hooks is not None:
            t._backward_hooks = hooks
        if late_hooks is not None:
            t._post_accumulate_grad_hooks = late_hooks


def reduce_storage(storage: torch.UntypedStorage, pickler: SnapshotPickler) -> Reduced:
    notes = sides.notes_of(storage) or None  # a CPU slot's: which side it is on
    where, recorder = sides.lies(storage), pickler.recorder
    nbytes = where.nbytes()
    if storage.device.type == "cpu":
        number = recorder.number(where.data_ptr(), nbytes, where)
        args = (recorder, number, storage.resizable(), storage.is_shared())
        return make_storage, args, notes, None, None, fill_storage
    if storage.device.type != "cuda":
        return pickler.refuse(storage, f"memory of the device {storage.device}, which no checkpoint can hold.")
    if nbytes:
        number = recorder.foreign(nbytes, lambda view: copy_to_host(view, where))
        pickler.on_devices[number] = where
    else:
        number = recorder.number(0, 0, storage)
    return make_device_storage, (recorder, number, str(storage.device)), notes, None, None, fill_storage


def copy_to_host(view: Any, storage: torch.UntypedStorage) -> None:
    with past_modes():
        source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        torch.frombuffer(view, dtype=torch.uint8).copy_(source)


def make_storage(opener: Opener, number: int, resizable: bool, shared: bool) -> torch.UntypedStorage:
    buffer, offset, nbytes = opener.place(number)
    if not nbytes:
        return torch.UntypedStorage(0)
    whole: torch.UntypedStorage | None = getattr(buffer, "storage", None)
    if shared and whole is not None and whole.is_shared() and not offset and nbytes == whole.nbytes():
        return whole
    if shared:  # with processes that will be forked from this one
        made = own_storage(opener.view(number), shared=True)
        if opener.came_in(number) or opener.stands_alone(number):
            opener.has_moved(number, made)
        return made
    if resizable and whole is not None and not offset and nbytes == whole.nbytes():
        return whole
    if resizable and (opener.came_in(number) or opener.stands_alone(number)):
        made = own_storage(opener.view(number))
        opener.has_moved(number, made)
        return made
    return torch.frombuffer(buffer, dtype=torch.uint8, offset=offset, count=nbytes).untyped_storage()


def make_device_storage(opener: Opener, number: int, device: str) -> torch.UntypedStorage:
    buffer, offset, nbytes = opener.place(number)
    made = torch.UntypedStorage(nbytes, device=device)
    if nbytes:
        source = torch.frombuffer(buffer, dtype=torch.uint8, offset=offset, count=nbytes)
        torch.empty(0, dtype=torch.uint8, device=device).set_(made).copy_(source)
    return made


def fill_storage(storage: torch.UntypedStorage, notes: dict[str, Any] | None) -> None:
    vars(storage).clear()  # frombuffer on a slot makes a note of its own
    vars(storage).update(notes or {})
    if sides.on_device(storage):
        sides.has_arrived(storage)


def reduce_generator(generator: torch.Generator, pickler: Pickler) -> Reduced:
    device, default = str(generator.device), False
    if generator.device.type == "cuda":
        default = any(generator is one for one in torch.cuda.default_generators)
    else:
        default = generator is torch.default_generator
    if default:
        return find_default_generator, (device,)  # its state is the process's, and set last of all
    if sides.generator_on_device(generator):
        device = "cuda"  # a slot's is the CPU's, of a class of its own
    return make_generator, (device,), (generator.get_state(), generator.initial_seed()), None, None, fill_generator


def find_default_generator(device: str) -> torch.Generator:
    if device == "cpu":
        return torch.default_generator
    torch.cuda.init()
    return torch.cuda.default_generators[torch.device(device).index or 0]


def make_generator(device: str) -> torch.Generator:
    return torch.Generator(device)


def fill_generator(generator: torch.Generator, state: tuple[torch.Tensor, int]) -> None:
    generator.manual_seed(state[1])
    generator.set_state(state[0])


def reduce_scaler(scaler: GradScaler, pickler: Pickler) -> Reduced:
    """Between unscale_() and update() it keeps what it knows under the id() of each optimizer."""
    own = dict(vars(scaler))
    known = own.pop("_per_optimizer_states", None)  # a disabled one has none
    if known is None:
        return make_instance, (type(scaler),), own, None, None, fill_attributes
    owners = {id(one): one for one in but_tuples() if issubclass(type(one), Optimizer)} if known else {}
    states = [(owners[number], state) for number, state in known.items() if number in owners]
    return make_instance, (type(scaler),), (own, known.default_factory, states), None, None, fill_scaler


def fill_scaler(scaler: GradScaler, state: tuple[dict[str, Any], Any, list[tuple[Any, Any]]]) -> None:
    from collections import defaultdict

    own, factory, states = state
    vars(scaler).update(own)
    scaler._per_optimizer_states = defaultdict(factory, {id(one): known for one, known in states})


def reduce_inference_mode(mode: inference_mode, pickler: Pickler) -> Reduced:
    own = {name: value for name, value in vars(mode).items() if name != _CONTEXT}
    return make_instance, (type(mode),), own, None, None, fill_attributes


def fill_attributes(obj: Any, own: dict[str, Any]) -> None:
    vars(obj).update(own)


# Streams and events, a GPU's or a slot's. At a safe point a stream can be waited for, and an empty one is as good then.
def reduce_stream(stream: torch.Stream, pickler: Pickler) -> Reduced:
    if stream.device.type != "cuda":
        return type(stream), ()
    torch.cuda.synchronize(stream.device)
    return make_stream, (str(stream.device), stream == torch.cuda.default_stream(stream.device))


def make_stream(device: str, default: bool) -> Any:
    return torch.cuda.default_stream(device) if default else torch.cuda.Stream(device)


def reduce_event(event: torch.Event, pickler: Pickler) -> Reduced:
    return make_event, (type(event),)


def make_event(cls: Any) -> Any:
    """One that has happened: what it would have measured is the time of another process."""
    event = cls(enable_timing=True)
    event.record()
    return event


_KINDS: dict[type, Kind] = {
    torch.UntypedStorage: Kind(reduce=reduce_storage),
}
