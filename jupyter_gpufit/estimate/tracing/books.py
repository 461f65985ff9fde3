"""The books: a dispatch mode under which every storage on the stand-in is born and dies on record.

One block per storage, since views share it; it dies with its storage. Operations on the CPU really happen; those on the
stand-in compute shapes only, and what depends on data gets an answer or an upper bound, and a note that says so. What
CUDA's kernels take besides, and fake kernels do not show, is added (see hidden.py).
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, UnsupportedOperatorException
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ...cuda.stand_in.device import STAND_IN, on_stand_in
from ...cuda.stand_in.sparse_fake import SparseFake
from ...devices import sides
from ...devices.card import Card
from ...fit.clock import clock
from ..reckoning.record import GROUPED, Kind, Phase
from .entries import BookEntry
from .flops import flops_of
from .hidden import ACCUMULATES, GEMMS, blas_workspace, hidden_bytes, is_grouped
from .known import KnownValues, leaves
from .remembered import Remembered
from .rounds import Rounds
from .subclasses import plain

aten = torch.ops.aten
_COPY = aten._to_copy.default
_DEVICE = torch.ops.prim.device.default
UNKNOWN = (UnsupportedOperatorException, NotImplementedError)  # an operator without a fake kernel
_COLLECTIVES = "c10d"  # see groups.py
_THERE = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
_JOINS = ("cat", "stack")  # whose tensors stand in a list


class Books(TorchDispatchMode):
    def __init__(
        self,
        fake: FakeTensorMode,
        card: Card,
        notes: Counter[str],
        *,
        answers: Mapping[Any, Callable[..., Any]],  # by the operator
        by_example: Callable[..., Any],  # for those without a fake kernel
        of_sparse: Callable[..., Any],  # for those that take or make a sparse matrix; NotImplemented for others
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._answers, self._by_example, self._of_sparse = answers, by_example, of_sparse
        self.fake, self.card = fake, card
        self.entries: list[BookEntry] = []
        self.events: list[tuple[int, bool]] = []  # block, whether it is alive
        self.notes = notes
        self.phase: Phase = "forward"
        self.kind: Kind | None = None  # of what is born now, where the caller knows
        self.where: Callable[[], str] = lambda: ""  # the module that computes; see paths.py
        self.recomputing: Callable[[], bool] = lambda: False
        self.step = 0  # optimizer steps so far
        self.rounds = Rounds()
        self.now = self.peak = 0  # bytes alive
        self.backwards = 0
        self.backward_ended: Callable[[int], None] = lambda first: None  # given the first block born in it
        self.flops = 0  # of the model: what is computed again in backward is not counted again
        self.flops_again = 0  # that is
        self._blocks: dict[int, tuple[weakref.ref[Any], int]] = {}  # by the storage's address
        self._with_workspace: set[str] = set()
        self._away: set[int] = set()  # blocks whose bytes a plan has put on the host
        self.known = KnownValues()
        self._remembered = Remembered(fake)

    # Blocks

    def add(self, size: int, op: str, kind: Kind | None = None) -> int:
        block = len(self.entries)
        self.entries.append(BookEntry(size, self.phase, self.kind or kind, op, self.where(), self.step))
        self.events.append((block, True))
        self.now += size
        self.peak = max(self.peak, self.now)
        return block

    def remove(self, block: int) -> None:
        self.events.append((block, False))
        self.now -= self.entries[block].size

    def enter(self, t: Any, op: str, kind: Kind | None = None) -> None:
        """Record the tensor's storage, unless it is known."""
        storage = t.untyped_storage()
        address = storage._cdata
        known = self._blocks.get(address)
        if known is not None and known[0]() is storage:
            return
        block = self.add(storage.nbytes(), op, kind)

        def gone(_: object) -> None:
            if self._blocks.get(address, (None, -1))[1] == block:
                del self._blocks[address]
            if block in self._away:
                self._away.remove(block)
            else:
                self.remove(block)

        self._blocks[address] = weakref.ref(storage, gone), block

    def block_of(self, t: Any) -> int | None:
        return self._block_on(t.untyped_storage())

    def _block_on(self, storage: torch.UntypedStorage) -> int | None:
        found = self._blocks.get(storage._cdata)
        return found[1] if found else None

    def label(self, t: Any, kind: Kind) -> None:
        if on_stand_in(t) and (block := self.block_of(t)) is not None:
            self.entries[block].kind = kind

    def follow(self, storage: torch.UntypedStorage, back: bool) -> None:
        """A plan has put its bytes on the host, or has them back."""
        block = self._block_on(storage)
        if block is None:
            return
        if back:
            self._away.discard(block)
            self.events.append((block, True))
            self.now += self.entries[block].size
            self.peak = max(self.peak, self.now)
        else:
            self._away.add(block)
            self.remove(block)

    def arrive(self) -> None:
        """What came before the cell is told to the plan, which it meets one by one: what goes on to the host at once
        was never there."""
        first = len(self.events)
        for ref, _ in list(self._blocks.values()):
            if (storage := ref()) is not None:
                sides.has_arrived(storage)
        passed = {block for block, alive in self.events[first:] if not alive}
        self.events[:] = [event for event in self.events if event[0] not in passed]

    def label_born_since(self, first: int, kind: Kind) -> None:
        """What was born since this block, still lives, and is known for nothing else."""
        for _, block in self._blocks.values():
            if block >= first and self.entries[block].kind is None:
                self.entries[block].kind = kind

    def backward_begins(self) -> None:
        """What lives now, and was made by a forward, was kept for this backward."""
        self.backwards += 1
        for _, block in self._blocks.values():
            self.entries[block].saved = True

    # Operations

    def number_of(self, t: torch.Tensor) -> Any:
        return self._answers[aten._local_scalar_dense.default](self, aten._local_scalar_dense.default, (t,), {})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):  # autograd asks for each twice
            return args[0].fake_device
        kwargs = kwargs or {}
        found = list(leaves((args, kwargs.values())))
        if not any(map(_concerns_us, found)):
            return func(*args, **kwargs)
        if any(plain(leaf) is not leaf for leaf in found):
            args, kwargs = tree_map(plain, (args, kwargs))
        if torch.is_inference_mode_enabled():  # in which fake tensors cannot be copied to a device
            with torch.inference_mode(False), torch.no_grad(), self:
                return func(*args, **kwargs)
        if func.namespace == _COLLECTIVES:
            with self:
                return func.redispatch(_THERE, *args, **kwargs)
        if (out := self._of_sparse(self, func, args, kwargs, found)) is not NotImplemented:
            return out
        if (answer := self._answers.get(func)) is not None:
            return answer(self, func, args, kwargs)
        return self.compute(func, args, kwargs)

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        key = self._remembered.key(func, args, kwargs)
        noted = self._remembered.find(key)
        if noted is not None:
            out, cost = self._remembered.again(noted, args), noted.cost
        else:
            out, by_shapes = self._shapes_of(func, args, kwargs)
            cost = _cost_of(func, args, kwargs, out)
            if by_shapes:
                self._remembered.note(key, func, args, kwargs, out, cost)
        name = func._opname
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        self.count(cost.flops)
        if not func.is_view:
            clock.compute(cost.flops, cost.moved)
        if name in GEMMS:
            self._take_workspace()
        elif cost.is_grouped:
            self.notes[GROUPED] = 1
        if cost.hidden > 0:
            self.remove(self.add(cost.hidden, name, "workspace"))
        self._record(func, name, first, args, out)
        if func is _COPY and not on_stand_in(first) and on_stand_in(out):
            self.known.arrived(first, out)
        else:
            self.known.follow(func, args, kwargs, out)
        return out

    def _shapes_of(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, bool]:
        """What it makes, and whether all of that follows from the shapes of what it is given."""
        try:
            with self.fake:
                return func(*args, **kwargs), True
        except UNKNOWN as error:
            try:
                return self._by_example(self, func, args, kwargs), False
            except Exception:
                raise error from None
        except RuntimeError:
            if func._opname in GEMMS:
                _fail_as_torch_does(func, args, kwargs)
            raise

    def _record(self, func: Any, name: str, first: Any, args: Any, out: Any) -> None:
        before = len(self.entries)
        kind = self._kind_of(func, first)
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if on_stand_in(t):
                self.enter(t, name, kind)
            elif isinstance(t, (tuple, list)):
                for inner in filter(on_stand_in, t):
                    self.enter(inner, name, kind)
        made_one = len(self.entries) == before + 1
        if self.phase == "backward" and func in ACCUMULATES and made_one and isinstance(first, FakeTensor):
            self._note_alias(self.entries[before], args, out)

    def _kind_of(self, func: Any, first: Any) -> Kind | None:
        """What comes from the host is input, and what the cell makes of nothing outside all modules (torch.randn)."""
        if func is _COPY and not on_stand_in(first):
            return "input"
        made = first is None and func._opname not in _JOINS and self.phase == "forward" and not self.where()
        return "input" if made else None

    def _note_alias(self, entry: BookEntry, args: Any, out: Any) -> None:
        size = out.untyped_storage().nbytes()
        same = [t for t in args[:2] if isinstance(t, FakeTensor) and t.untyped_storage().nbytes() == size]
        entry.alias = [block for t in same if (block := self.block_of(t)) is not None]

    def _take_workspace(self) -> None:
        """cuBLAS keeps one workspace per thread that calls it: the forward's and the autograd engine's."""
        thread = "backward" if self.phase == "backward" else "forward"
        if thread not in self._with_workspace:
            self._with_workspace.add(thread)
            self.add(blas_workspace(self.card), "cublas", "workspace")

    def count(self, flops: int) -> None:
        if self.recomputing():
            self.flops_again += flops
        else:
            self.flops += flops

    @contextmanager
    def passing(self, size: int, op: str) -> Iterator[None]:
        """Memory that a kernel takes and gives back."""
        block = self.add(size, op, "workspace") if size else None
        yield
        if block is not None:
            self.remove(block)

    def new(self, like: Any, shape: tuple[int, ...], dtype: torch.dtype, op: str) -> Any:
        with self.fake:
            out = torch.empty(shape, dtype=dtype, device=like.device)
        self.enter(out, op)
        return out


class _Cost(NamedTuple):
    """What an operation takes besides what it makes."""

    flops: int
    moved: int  # bytes that it reads and writes
    hidden: int  # bytes that its kernel takes and gives back
    is_grouped: bool


def _cost_of(func: Any, args: Any, kwargs: Any, out: Any) -> _Cost:
    moved = 0 if func.is_view else _bytes_of((args, kwargs.values(), out))
    return _Cost(flops_of(func, args, kwargs, out), moved, hidden_bytes(func._opname, args), is_grouped(func, args))


def _bytes_of(found: Any) -> int:
    return sum(t.numel() * t.element_size() for t in leaves(found) if isinstance(t, FakeTensor))


def _concerns_us(value: object) -> bool:
    return isinstance(value, FakeTensor | SparseFake) or (isinstance(value, torch.device) and value.type == STAND_IN)


def _fail_as_torch_does(func: Any, args: Any, kwargs: Any) -> None:
    """Fake tensors word the commonest mistake, two shapes that cannot be multiplied, in their own way."""
    with no_dispatch():
        real = tree_map(lambda t: torch.zeros(1).expand(t.shape) if isinstance(t, torch.Tensor) else t, (args, kwargs))
        func(*real[0], **real[1])
