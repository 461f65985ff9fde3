"""What all ranks have alike, in parts: of a large gradient, or parameter, each rank has an equal part.

A storage stays the object that it is. Its bytes are gathered from all ranks for the operations that look at it, and
dropped when one comes that looks at others. So whoever looks has it whole, no unit is cut out of a model, and nothing
is put on a parameter: as where a plan has bytes on the host (rungs/pager.py), with another home. All ranks make the
same operations in the same order, and so they gather at the same one. Optimizers step the parts (split.py).

A part changes between two meetings of all alone. So whoever stands between two operations may read the others' parts
(see Group.read), whatever these do meanwhile: a checkpoint does, and what the cell itself saves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any
from weakref import ref

import torch
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from ...devices import sides
from ...errors import PartGone
from ..rungs.host import HostCopy, drop, is_fake, room_for, save, watch
from ..rungs.operations import does, given_to, storage_of, written
from ..rungs.reach import Reach, handed_out
from ..rungs.residency import watchers
from ..rungs.sliced import in_slices, takes_lists
from ..rungs.threads import in_threads
from .by_parts import changes, of_parts, taken, to_part
from .elsewhere import CellsThread, OfOtherThreads
from .group import Group, ShapesOnly
from .passages import summed
from .shard import Shard, can_part, flat_on, part_of

_unheard = torch._C.DisableTorchFunction


class Shards(TorchDispatchMode):
    """One rank's; to be entered in the main thread of its cell, from where torch takes it into a backward's."""

    def __init__(self, group: Group, *, parameters: bool) -> None:
        """`parameters`: these, too; else gradients alone."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.group, self._parameters = group, parameters
        self._numbers = count()
        self._known: dict[int, Shard] = {}  # by the storage's address
        self._offered: dict[int, Shard] = {}  # by their numbers; what died stays until all have met
        self._dead: deque[Shard] = deque()
        self._here: list[Shard] = []
        self._trained = WeakIdKeyDictionary()  # parameters whose gradients are shared out
        self._coming: list[torch.Tensor] = []  # parameters whose gradients have just been summed
        self._backward = -1  # the number of the one that is under way
        self.beside: dict[type, Any] = {}  # what others keep of it
        self._cells, self._busy, self._is_alone = CellsThread(), threading.local(), False

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        """What is done here is no part of what the cell does, also where it does not come from an operation."""
        before, self._busy.now = self._is_busy, True  # of this thread alone: another may read for a checkpoint
        try:
            with torch.no_grad(), _unheard():
                yield
        finally:
            self._busy.now = before

    @property
    def _is_busy(self) -> bool:
        return getattr(self._busy, "now", False)

    # What there is

    def begin_forward(self, parameters: Iterable[torch.Tensor]) -> None:
        """All ranks have met, and are about to call a model with these parameters."""
        self._forget([*self._dead])
        if self._is_alone:
            return
        for p in parameters:
            if p.requires_grad:
                self._trained[p] = None
            if self._parameters and self.of(p) is None:
                self._adopt(p)

    def of(self, t: torch.Tensor) -> Shard | None:
        with _unheard():
            storage = storage_of(t)
        return self._of(storage) if storage is not None else None

    def _of(self, storage: torch.UntypedStorage) -> Shard | None:
        found = self._known.get(storage._cdata)
        return found if found is not None and found.ref() is storage else None

    def find(self, number: int) -> torch.Tensor | None:
        """For another rank."""
        found = self._offered.get(number)
        return None if found is None else found.mine

    def _adopt(self, t: torch.Tensor, gradient_of: torch.Tensor | None = None) -> None:
        """Keep a part of it alone, if all ranks can."""
        with self.by_itself():
            storage = storage_of(t)
            if storage is None or not can_part(t, storage):
                return
            own, each = part_of(t, self.group)
            mine = t.detach().view(-1)[own].clone()
            if sides.on_device(storage):
                sides.note(mine)
            self._drop(self.enter(storage, t.numel(), each, own, mine, gradient_of))

    def enter(
        self,
        storage: torch.UntypedStorage,
        numel: int,
        each: int,
        own: slice,
        mine: torch.Tensor,
        gradient_of: torch.Tensor | None,
    ) -> Shard:
        """Know this rank's part of what has no memory on the device, or is about to give it back."""
        dead = self._dead

        def gone(_: Any) -> None:
            dead.append(shard)

        shard = Shard(watch(storage, gone), next(self._numbers), storage._cdata, numel, each, own, mine)
        shard.gradient_of = None if gradient_of is None else ref(gradient_of)
        shard.here = False
        setattr(storage, sides.AWAY, partial(self._on_host, shard))
        self._known[shard.address] = self._offered[shard.number] = shard
        return shard

    def leave_out(self, shard: Shard) -> None:
        """Nobody has it any more."""
        self._offered.pop(shard.number, None)
        if self._known.get(shard.address) is shard:
            del self._known[shard.address]
        if shard in self._here:
            self._here.remove(shard)
        shard.mine, shard.copy = shard.mine.new_empty(0), None  # it is in a circle with who hears of its end

    def _forget(self, dead: Sequence[Shard]) -> None:
        for _ in dead:
            self.leave_out(self._dead.popleft())

    # Operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._trained and not self._is_busy and self._cells.is_here():
            self._look_at_gradients()
        if not self._known or self._is_busy:
            return func(*args, **kwargs)
        if takes_lists(func) and len(self._given((args, kwargs))) > 1:
            return in_slices(func, args, kwargs, self._run)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        given = self._given((args, kwargs))
        reads, writes = does(func) if given else (False, ())
        if not reads:
            return func(*args, **kwargs)
        self._cells.refuse_others()
        if len(given) == 1 and not self._is_alone and self._suffices(given[0], taken(func, args, kwargs)):
            return self._by_parts(given[0], func, args, kwargs)
        changed = self._given(written(writes, args, kwargs))
        if changed:
            self.meet()
        self._bring(given)
        try:
            return func(*args, **kwargs)
        finally:
            if changed:
                self._cut(changed)
                self.meet()
            for shard in given[:-1]:
                self._drop(shard)

    def _suffices(self, shard: Shard, t: torch.Tensor | None) -> bool:
        """Whether that is all of it, and each rank has its part."""
        if t is None or shard.is_hosts:
            return False
        with _unheard():
            is_all = t.numel() == shard.numel and t.dtype == shard.mine.dtype and t.is_contiguous()
            return is_all and self.of(t) is shard

    def _by_parts(self, shard: Shard, func: Any, args: Any, kwargs: Any) -> Any:
        if not changes(func):
            return of_parts(self.group, func, args, kwargs, shard.mine)
        self.meet()
        to_part(func, args, kwargs, shard.mine)
        self.changed(shard)
        self.meet()
        return None if isinstance(args[0], (list, tuple)) else args[0]

    def changed(self, shard: Shard) -> None:
        """What else there is of it is of before."""
        shard.copy = None
        if shard.here:
            self._drop(shard)

    def _given(self, found: Any) -> list[Shard]:
        with _unheard():
            storages = [storage_of(t) for t in given_to(found)]
        shards = {shard for one in storages if one is not None and (shard := self._of(one)) is not None}
        # Not as they are given: of one sample torch multiplies and then adds what it does at once of several.
        return sorted((shard for shard in shards if not shard.stays), key=lambda shard: shard.number)

    def meet(self) -> None:
        """What any of them has changed, is; and nobody is still reading what was before."""
        dead = [*self._dead]
        if not self._is_alone:
            with self.by_itself():
                self.group.all_reduce(torch.zeros(1))
        self._forget(dead)

    # Gradients

    def _look_at_gradients(self) -> None:
        """In a backward: those that came since the last operation, and at its end, whatever else came."""
        task: int = torch._C._current_graph_task_id()
        if task in (-1, self._backward) and not self._coming:
            return
        if task not in (-1, self._backward):
            self._backward = task
            Variable._execution_engine.queue_callback(self._backward_ended)
        self._coming, coming = [], self._coming
        self._coming = [p for p in coming if not self._take_gradient(p)] + self._coming

    def come(self, tensors: Sequence[torch.Tensor]) -> None:
        """Their gradients have been summed, by all, and are about to be accumulated."""
        self._forget([*self._dead])
        self._coming += [t for t in tensors if t in self._trained]

    def _backward_ended(self) -> None:
        self._coming = []
        for p in list(self._trained.keys()):
            self._take_gradient(p)
        self.drop_all()
        self.meet()

    def _take_gradient(self, p: torch.Tensor) -> bool:
        """Whether it is there."""
        with _unheard():
            grad = p.grad
        if grad is None or self._is_alone:
            return False
        if not grad.requires_grad and grad.shape == p.shape and self.of(grad) is None:
            self._adopt(grad, p)
        return True

    def in_parts_now(self, p: torch.Tensor) -> Shard | None:
        """It, if all ranks have their parts of it, and this is the thread that may call them."""
        shard = self.of(p)
        if shard is None or shard.stays or shard.is_hosts or self._is_alone or not self._cells.is_here():
            return None
        return shard

    # There and back

    def _bring(self, given: Sequence[Shard]) -> None:
        """Have all of these on the device, and no others.

        As if one operation looked at each: another rank may do in several what torch does in one here.
        """
        if given:
            self._cells.refuse_others()
        for shard in [one for one in self._here if one not in given[:1]]:
            self._drop(shard)
        for shard in given:
            if not shard.here:
                self._gather(shard)

    def _gather(self, shard: Shard) -> None:
        storage, dead = shard.storage, [*self._dead]
        if not is_fake(storage):
            with self.by_itself():
                room_for(storage, shard.nbytes)
                self._fill(shard, flat_on(storage, shard))
        shard.here = True  # not sooner: an interrupt may strike meanwhile
        self._here.append(shard)
        delattr(storage, sides.AWAY)
        tell(storage, True)
        self._forget(dead)

    def _fill(self, shard: Shard, whole: torch.Tensor) -> None:
        if self._is_alone:
            self._on_host(shard)  # else a part of it was lost
            assert shard.copy is not None
            whole.copy_(shard.copy.whole[: shard.nbytes].view(whole.dtype))
            return
        whole[shard.own].copy_(shard.mine)
        for rank in range(self.group.size):
            if (part := whole[rank * shard.each : (rank + 1) * shard.each]).numel():
                self.group.broadcast(part, rank)

    def _drop(self, shard: Shard) -> None:
        """The device has this rank's part alone."""
        if shard in self._here:
            self._here.remove(shard)
        shard.here = False
        if (storage := shard.ref()) is not None:
            setattr(storage, sides.AWAY, partial(self._on_host, shard))
            drop(storage, shard.nbytes)
            tell(storage, False)

    def drop_all(self) -> None:
        for shard in [*self._here]:
            self._drop(shard)

    def _cut(self, changed: Sequence[Shard]) -> None:
        """They are whole on the device, with other numbers than before."""
        for shard in changed:
            storage = shard.ref()
            if storage is None or not shard.here or is_fake(storage):
                continue
            with self.by_itself():
                if shard.is_hosts:
                    assert shard.copy is not None
                    save(storage, shard.copy, shard.nbytes)
                else:
                    shard.mine.copy_(flat_on(storage, shard)[shard.own])
                    shard.copy = None

    # An optimizer's step

    def part(self, t: torch.Tensor) -> torch.Tensor | None:
        """This rank's part of it, to be stepped; None: it is whole."""
        shard = self.of(t)
        if shard is None or shard.is_hosts or shard.stays:
            return None
        with self.by_itself():
            return shard.mine.detach()

    def stepped(self, parameters: Iterable[torch.Tensor], *, alone: bool) -> None:
        """Their parts were; `alone`: the others may not have come as far."""
        self.drop_all()
        for shard in self._offered.values():
            shard.copy = None
        for p in parameters:
            torch.autograd.graph.increment_version(p)
        if not alone:
            self.meet()

    # Whoever looks past all operations: see Reach

    def have(self, t: torch.Tensor) -> None:
        if given := self._given(t):
            self._bring(given)

    def hold(self, t: torch.Tensor) -> None:
        """From now on each rank has all of it."""
        for shard in self._given(t):
            self._bring([shard])
            self._here.remove(shard)
            shard.stays, shard.mine = True, shard.mine.new_empty(0)

    def on_host(self, t: torch.Tensor) -> torch.UntypedStorage | None:
        shard = self.of(t)
        if shard is None or shard.stays or is_fake(shard.storage):
            return None
        self._cells.refuse_others()
        if shard.here and shard.copy is None:
            shard.copy = HostCopy(shard.nbytes, real=True)
            save(shard.storage, shard.copy, shard.nbytes)
        found = self._on_host(shard)
        vars(found).update(sides.notes_of(shard.storage))
        return found

    def _on_host(self, shard: Shard) -> torch.UntypedStorage:
        """Where its bytes are; read from the others, and no call that all make."""
        if shard.copy is None:
            copy = HostCopy(shard.nbytes, real=True)
            with self.by_itself():
                whole = copy.whole[: shard.nbytes].view(shard.mine.dtype)
                whole[shard.own].copy_(shard.mine)
                for rank in range(-(-shard.numel // shard.each)):  # also of those who have left the group
                    there = whole[rank * shard.each : (rank + 1) * shard.each]
                    if rank != self.group.rank and there.numel():
                        self.group.read(rank, shard.number, "", there)
            shard.copy = copy
        return shard.copy.storage(shard.nbytes)

    # Alone

    def leave(self) -> int:
        """Nobody else takes part from now on; of how many gradients a part was lost with a rank.

        All comes to the host, since the device may have no room for it, and from there where it is looked at. What is
        lost of a parameter, nobody can look at any more.
        """
        lost = 0
        if not self._is_alone and not isinstance(self.group, ShapesOnly):
            self._coming = []
            for shard in [one for one in self._known.values() if one.ref() is not None and not one.stays]:
                try:
                    self._be_hosts(shard)
                except PartGone:
                    p = None if shard.gradient_of is None else shard.gradient_of()
                    if p is not None:
                        p.grad = None
                        lost += 1
        self._is_alone = True
        return lost

    def _be_hosts(self, shard: Shard) -> None:
        storage = shard.storage
        if shard.here:
            shard.copy = HostCopy(shard.nbytes, real=True)
            save(storage, shard.copy, shard.nbytes)
            self._drop(shard)
        self._on_host(shard)
        shard.is_hosts, shard.mine = True, shard.mine.new_empty(0)


@contextmanager
def in_parts(shards: Shards) -> Iterator[None]:
    """Run with these; threads that start meanwhile are refused what is in parts."""
    global current
    reach = Reach(shards)
    before, current = current, shards
    summed.append(shards.come)
    try:
        with ExitStack() as stack:
            elsewhere = in_threads(OfOtherThreads(shards._given), reach)
            for mode in (shards, reach, elsewhere, handed_out(shards)):
                stack.enter_context(mode)
            yield
    finally:
        summed.remove(shards.come)
        current = before


current: Shards | None = None  # of the run that this process is in


def lies_here(t: torch.Tensor) -> torch.Tensor:
    """What of it is on this device."""
    found = current.part(t) if current is not None else None
    return t if found is None else found


def tell(storage: torch.UntypedStorage, back: bool) -> None:
    for told in watchers:
        told(storage, back)
