"""Keeps what a cell has on its device within so many bytes: what is not used for the longest time is on the host.

Every operation of torch comes through here, also those of a backward. What it is given is brought to the device first,
if it is not on its way there already, and what is used last of all makes room (residency.py). So nothing is put on a
module, a parameter or an optimizer, no part of a model is cut out, and each operation is the very one of the plain
training, on the same tensors: the bits are the same whatever the model, the optimizer and the loop are. A storage stays
the object that it is; only its bytes are elsewhere.

The same runs around a trial run, whose storages have no bytes; who counts those is told by `watchers`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from ...devices import sides
from .host import is_fake, save, watch
from .operations import can_leave, does, given_to, is_hosts, is_on_device, may_be_slots, storage_of, tensors_in, written
from .reach import Reach, handed_out
from .residency import PagedStorage, Residency, watchers
from .sliced import in_slices, steps_in_slices, takes_lists
from .threads import in_threads

__all__ = ["PagedBytes", "Pager", "paged", "watchers"]

Whole = Callable[[], AbstractContextManager[None]]  # around what an interrupt must not cut in half

LEAST = 64 << 10  # bytes: smaller storages stay where they are


@dataclass
class PagedBytes:
    """What a run under a plan did."""

    moved: int = 0  # bytes, there and back
    taken: int = 0  # bytes of the host
    waited: float = 0.0  # seconds, for copies
    ahead: int = 0  # copies that began before they were asked for


class Pager(TorchDispatchMode):
    """One run's; to be entered in each thread of it."""

    def __init__(self, room: int, *, states_only: bool, keep: int = 0, reserved: int = 0, least: int = LEAST) -> None:
        """`room`: bytes of what moves that may be on the device. `states_only`: only what optimizers keep does, and the
        first `keep` bytes of it do not. `reserved`: bytes of the host that it will take."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.states_only, self.least = states_only, least
        self._keep = keep
        self.residency = Residency(room, reserved)
        self.stepping = 0  # optimizers that take a step
        self._pages: dict[int, PagedStorage] = {}  # by the storage's address
        self._numbers = count()
        self._dead: deque[PagedStorage] = deque()  # their storages are no more: told in whatever thread
        self._new: list[Any] = []  # weak references to storages of which it is not known yet on which side they are
        self.whole: Whole = nullcontext
        self._lock = threading.RLock()

    @property
    def room(self) -> int:
        """Bytes."""
        return self.residency.room

    # Operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self.whole(), self._lock:
            self._look_again()
            if takes_lists(func) and self._bytes_of((args, kwargs)) > self.room:
                return in_slices(func, args, kwargs, self._run)
            return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        given = [page for t in given_to((args, kwargs)) if (page := self._page_of(t)) is not None]
        reads, writes = does(func)
        if reads:
            self.bring(given)
            self.residency.used(func._opname, given)
            for t in given_to(written(writes, args, kwargs)):
                if (page := self._page_of(t)) is not None:
                    page.changed = True
            self.residency.bring_ahead(given)
        out = func(*args, **kwargs)
        self._forget_dead()
        made = [page for t in tensors_in(out) if (page := self._see(t, given, func._opname)) is not None]
        self.residency.make_room(0, (*given, *made))
        return out

    def bring(self, given: Sequence[PagedStorage]) -> None:
        """Have all of these on the device."""
        outside = self.states_only and not self.stepping
        others = [page for page in given if outside and page.moves and not page.here]
        self.residency.bring(given)
        for page in others:  # it came here from outside, and is no optimizer's
            page.moves = False
            self.residency.leave(page)

    def hold(self, t: torch.Tensor) -> None:
        """Leave it on the device from now on: somebody looks at its memory, past all operations."""
        with self.whole(), self._lock:
            if (page := self._page_of(t)) is not None:
                self.bring([page])
                self._stays(page)

    def on_host(self, t: torch.Tensor) -> torch.UntypedStorage | None:
        """The host's copy of what it stands on, with the same notes; None: it does not move."""
        with self.whole(), self._lock:
            page = self._page_of(t)
            if page is None or not page.moves:
                return None
            storage = page.ref()
            if page.changed:
                page.copy = page.copy or self.residency.host.take(page.nbytes, real=not is_fake(storage))
                save(storage, page.copy, page.nbytes)
                page.changed = False
            found = page.on_host()
            vars(found).update(sides.notes_of(storage))
            return found

    def have(self, t: torch.Tensor) -> None:
        """Have it on the device just now."""
        with self.whole(), self._lock:
            if (page := self._page_of(t)) is not None:
                self.bring([page])

    # What there is

    def _bytes_of(self, found: Any) -> int:
        return sum({id(page): page.nbytes for t in given_to(found) if (page := self._page_of(t)) is not None}.values())

    def _page_of(self, t: torch.Tensor) -> PagedStorage | None:
        """Of a tensor on the device that is large enough."""
        storage = storage_of(t)
        if storage is None:
            return None
        page = self._known(storage)
        if page is None:
            return self._adopt(storage) if storage.nbytes() >= self.least and is_on_device(t, storage) else None
        if page.moves and is_hosts(storage):
            self.bring([page])
            self._stays(page)
        return page

    def _resized(self, page: PagedStorage) -> PagedStorage:
        """`resize_` and `out=` make another one of it."""
        storage = page.ref()
        if page.nbytes == storage.nbytes() or not page.here:
            return page
        self._forget(page)
        return self._adopt(storage, "resized")

    def _known(self, storage: torch.UntypedStorage) -> PagedStorage | None:
        page = self._pages.get(storage._cdata)
        return page if page is not None and page.ref() is storage else None

    def _see(self, t: torch.Tensor, given: Sequence[PagedStorage], op: str) -> PagedStorage | None:
        """What an operation returned: what comes of something on the device is there, too."""
        storage = storage_of(t)
        if storage is None or (known := self._known(storage)) is not None:
            return self._resized(known) if storage is not None and known is not None else None
        if storage.nbytes() < self.least:
            return None
        if is_on_device(t, storage) or (given and may_be_slots(storage, given[0].ref())):
            return self._adopt(storage, op)
        if t.device.type == "cpu":
            self._new.append(watch(storage, lambda _: None))
        return None

    def _look_again(self) -> None:
        """A slot's notes are made when the function has returned."""
        self._forget_dead()
        if self._new:
            new, self._new = self._new, []
            for ref in new:
                if (storage := ref()) is not None and self._known(storage) is None and sides.on_device(storage):
                    self._adopt(storage)
            self.residency.make_room(0, ())

    def _adopt(self, storage: torch.UntypedStorage, op: str = "", *, arrives: bool = False) -> PagedStorage:
        nbytes, courses = storage.nbytes(), self.residency.courses
        born_in_step = self.states_only and self.stepping > 0 and not arrives
        stays = not can_leave(storage) or (born_in_step and self._is_kept_here(nbytes))
        moves = not stays and (arrives or born_in_step or not self.states_only)
        dead = self._dead

        def gone(_: Any) -> None:
            dead.append(page)  # and no more: it is told wherever the last one lets go of it, or the collector runs

        number = next(self._numbers)
        address, name = storage._cdata, courses.born(op)
        page = PagedStorage(watch(storage, gone), address, nbytes, number, courses.number, name, moves, stays)
        self._pages[address] = page
        if moves:
            self.residency.enter(page)
        return page

    def _is_kept_here(self, nbytes: int) -> bool:
        """Whether it is one of the first states, which stay on the device."""
        if self._keep < nbytes:
            return False
        self._keep -= nbytes
        return True

    def _forget_dead(self) -> None:
        while self._dead:
            self._forget(self._dead.popleft())

    def _forget(self, page: PagedStorage) -> None:
        self.residency.leave(page)
        if self._pages.get(page.address) is page:
            del self._pages[page.address]
        if page.copy is not None:
            self.residency.host.give(page.copy)
            page.copy = None

    def _stays(self, page: PagedStorage) -> None:
        page.stays = True
        if page.moves:
            page.moves = False
            self.residency.leave(page)

    # Around a run

    def arrived(self, storage: torch.UntypedStorage) -> None:
        """One came to the device by no operation: a variable of an earlier cell, or what a checkpoint had."""
        with self.whole(), self._lock:
            self._forget_dead()
            if storage.nbytes() >= self.least and self._known(storage) is None:
                page = self._adopt(storage, "arrived", arrives=True)
                if page.moves:
                    if self.states_only:
                        self.residency.send(page)
                    self.residency.make_room(0, ())

    @contextmanager
    def steps_noticed(self) -> Iterator[None]:
        numbers: dict[int, int] = {}  # of optimizers, by their ids

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            self.stepping += 1
            with self.whole(), self._lock:
                for t in tensors_in(list(optimizer.state.values())):
                    if self.states_only and (page := self._page_of(t)) is not None:
                        self._is_state(page)

        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            self.stepping -= 1
            with self.whole(), self._lock:
                self.residency.turn(numbers.setdefault(id(optimizer), len(numbers)))

        hooks = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _is_state(self, page: PagedStorage) -> None:
        """One that was there before: as if it had been born in a step."""
        if page.moves or page.stays or not can_leave(page.ref()):
            return
        if self._is_kept_here(page.nbytes):
            page.stays = True
        else:
            page.moves = True
            self.residency.enter(page)

    def told(self) -> PagedBytes:
        found = self.residency
        return PagedBytes(found.moved, found.host.taken, found.waited, found.brought_ahead)


last: Pager | None = None  # whose run this process is in, or was
whole: Whole = nullcontext  # of the runs to come in this process
_forks_noticed = False


@contextmanager
def paged(pager: Pager) -> Iterator[None]:
    """Run under it, with all threads that start meanwhile. What is on the host then is left there: who takes the
    results does so inside."""
    global last
    reach = Reach(pager)
    last, pager.whole = pager, whole
    _notice_forks()
    sides.tell_arrived.append(pager.arrived)
    try:
        with steps_in_slices(pager.room), handed_out(pager), pager.steps_noticed():
            with pager, reach, in_threads(pager, reach):
                yield
    finally:
        sides.tell_arrived.remove(pager.arrived)


def _notice_forks() -> None:
    """A forked process has no thread that copies: nothing is on its way when it begins."""
    global _forks_noticed
    if not _forks_noticed:
        _forks_noticed = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork)


def _before_fork() -> None:
    if last is not None:
        last._lock.acquire()
        last.residency.settle()


def _after_fork() -> None:
    if last is not None:
        last._lock.release()


def _in_fork() -> None:
    if last is not None:
        last.residency.forked()
        last._lock.release()
