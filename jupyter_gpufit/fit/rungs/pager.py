"""Keeps what a cell has on its device within so many bytes: what was not used for the longest time is on the host.

Every operation of torch comes through here, also those of a backward. What it is given is brought to the device first,
and what was used longest ago makes room. So nothing is put on a module, a parameter or an optimizer, no part of a model
is cut out, and each operation is the very one of the plain training, on the same tensors: the bits are the same
whatever the model, the optimizer and the loop are. A storage stays the object that it is; only its bytes are elsewhere.

The same runs around a trial run, whose storages have no bytes; who counts those is told by `watchers`.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from ...devices import sides
from ...errors import NotUnderPlan
from .host import HostCopy, HostMemory, fetch, is_fake, save, send, watch
from .reach import Reach
from .sliced import in_slices, steps_in_slices, takes_lists

LEAST = 64 << 10  # bytes: smaller storages stay where they are

watchers: list[Callable[[torch.UntypedStorage, bool], None]] = []  # told of each that goes (False) or is back (True)


@dataclass(eq=False)
class PagedStorage:
    """A storage on the device, or on the host."""

    ref: Any  # a weak one: nothing here keeps it alive
    nbytes: int
    moves: bool
    stays: bool  # for good
    here: bool = True
    changed: bool = True  # since the host has a copy
    copy: HostCopy | None = None

    def on_host(self) -> torch.UntypedStorage:
        assert self.copy is not None
        return self.copy.storage(self.nbytes)


@dataclass
class PagedBytes:
    """What a run under a plan did."""

    moved: int = 0  # bytes, there and back
    taken: int = 0  # bytes of the host


class Pager(TorchDispatchMode):
    """One run's; to be entered in each thread of it."""

    def __init__(self, room: int, *, states_only: bool, keep: int = 0, reserved: int = 0, least: int = LEAST) -> None:
        """`room`: bytes of what moves that may be on the device. `states_only`: only what optimizers keep does, and the
        first `keep` bytes of it do not. `reserved`: bytes of the host that it will take."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.room, self.states_only, self.least = room, states_only, least
        self._keep = keep
        self.host = HostMemory(reserved)
        self.moved = 0
        self.stepping = 0  # optimizers that take a step
        self._pages: dict[int, PagedStorage] = {}  # by the storage's address
        self._here: OrderedDict[int, PagedStorage] = OrderedDict()  # of those that move, the one used last at the end
        self._now = 0  # bytes of these
        self._new: list[Any] = []  # weak references to storages of which it is not known yet on which side they are
        self._lock = threading.RLock()
        self._process = os.getpid()

    # Operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self._lock:
            self._look_again()
            if takes_lists(func) and self._bytes_of((args, kwargs)) > self.room:
                return in_slices(func, args, kwargs, self._run)
            return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        given = [page for t in _tensors((args, kwargs)) if (page := self._page_of(t)) is not None]
        reads, writes = _does(func)
        if reads:
            self.bring(given)
            for page in given:
                page.changed = page.changed or writes
        out = func(*args, **kwargs)
        made = [self._see(t, given) for t in _tensors(out)]
        self._make_room(0, {id(page) for page in (*given, *made)})
        return out

    def bring(self, given: list[PagedStorage]) -> None:
        """Have all of these on the device."""
        away = list({id(page): page for page in given if not page.here}.values())
        if away:
            self._make_room(sum(page.nbytes for page in away), {id(page) for page in given})
            for page in away:
                self._fetch(page)
        for page in given:
            if page.moves:
                self._here.move_to_end(page.ref()._cdata)

    def hold(self, t: torch.Tensor) -> None:
        """Leave it on the device from now on: somebody looks at its memory, past all operations."""
        with self._lock:
            if (page := self._page_of(t)) is not None:
                self.bring([page])
                self._stays(page)

    def on_host(self, t: torch.Tensor) -> torch.UntypedStorage | None:
        """The host's copy of what it stands on, with the same notes; None: it does not move."""
        with self._lock:
            page = self._page_of(t)
            if page is None or not page.moves:
                return None
            storage = page.ref()
            if page.changed:
                page.copy = page.copy or self.host.take(page.nbytes, real=not is_fake(storage))
                save(storage, page.copy, page.nbytes)
                page.changed = False
            found = page.on_host()
            vars(found).update(sides.notes_of(storage))
            return found

    def have(self, t: torch.Tensor) -> None:
        """Have it on the device just now."""
        with self._lock:
            if (page := self._page_of(t)) is not None:
                self.bring([page])

    # What there is

    def _bytes_of(self, found: Any) -> int:
        return sum({id(page): page.nbytes for t in _tensors(found) if (page := self._page_of(t)) is not None}.values())

    def _page_of(self, t: torch.Tensor) -> PagedStorage | None:
        """Of a tensor on the device that is large enough."""
        storage = _storage_of(t)
        if storage is None:
            return None
        page = self._known(storage)
        if page is None:
            return self._adopt(storage) if storage.nbytes() >= self.least and _on_device(t, storage) else None
        if page.moves and _is_hosts(storage):
            self.bring([page])
            self._stays(page)
        return page

    def _known(self, storage: torch.UntypedStorage) -> PagedStorage | None:
        page = self._pages.get(storage._cdata)
        return page if page is not None and page.ref() is storage else None

    def _see(self, t: torch.Tensor, given: list[PagedStorage]) -> PagedStorage | None:
        """What an operation returned: what comes of something on the device is there, too."""
        storage = _storage_of(t)
        if storage is None or (known := self._known(storage)) is not None:
            return known if storage is not None else None
        if storage.nbytes() < self.least:
            return None
        if given or _on_device(t, storage):
            return self._adopt(storage)
        if t.device.type == "cpu":
            self._new.append(watch(storage, lambda _: None))
        return None

    def _look_again(self) -> None:
        """A slot's notes are made when the function has returned."""
        if self._new:
            new, self._new = self._new, []
            for ref in new:
                if (storage := ref()) is not None and self._known(storage) is None and sides.on_device(storage):
                    self._adopt(storage)
            self._make_room(0, set())

    def _adopt(self, storage: torch.UntypedStorage, *, arrives: bool = False) -> PagedStorage:
        address, nbytes = storage._cdata, storage.nbytes()
        born_in_step = self.states_only and self.stepping > 0 and not arrives
        stays = not _can_leave(storage) or (born_in_step and self._is_kept_here(nbytes))
        moves = not stays and (arrives or born_in_step or not self.states_only)

        def gone(_: Any) -> None:
            with self._lock:
                if self._pages.get(address) is page:
                    del self._pages[address]
                self._forget(address, page)

        page = PagedStorage(watch(storage, gone), nbytes, moves, stays)
        self._pages[address] = page
        if moves:
            self._here[address] = page
            self._now += nbytes
        return page

    def _is_kept_here(self, nbytes: int) -> bool:
        """Whether it is one of the first states, which stay on the device."""
        if self._keep < nbytes:
            return False
        self._keep -= nbytes
        return True

    def _forget(self, address: int, page: PagedStorage) -> None:
        if self._here.get(address) is page:
            del self._here[address]
            self._now -= page.nbytes
        if page.copy is not None:
            self.host.give(page.copy)

    def _stays(self, page: PagedStorage) -> None:
        page.stays = True
        if page.moves:
            page.moves = False
            del self._here[page.ref()._cdata]
            self._now -= page.nbytes

    # There and back

    def _make_room(self, wanted: int, but: set[int]) -> None:
        if self._now + wanted <= self.room or os.getpid() != self._process:
            return  # a process that was forked from this one must not write to the memory that they share
        for page in list(self._here.values()):
            if _is_hosts(page.ref()):
                self._stays(page)
            elif id(page) not in but:
                self._send(page)
                if self._now + wanted <= self.room:
                    return

    def _send(self, page: PagedStorage) -> None:
        storage = page.ref()
        if storage is None:
            return
        if page.copy is None:
            page.copy = self.host.take(page.nbytes, real=not is_fake(storage))
        if page.changed:
            self.moved += page.nbytes
        send(storage, page.copy, page.nbytes, changed=page.changed)
        setattr(storage, sides.AWAY, page.on_host)
        page.here = page.changed = False
        del self._here[storage._cdata]
        self._now -= page.nbytes
        for told in watchers:
            told(storage, False)

    def _fetch(self, page: PagedStorage) -> None:
        storage = page.ref()
        assert page.copy is not None
        fetch(storage, page.copy, page.nbytes)
        delattr(storage, sides.AWAY)
        self.moved += page.nbytes
        page.here = True
        if self.states_only and not self.stepping:
            page.moves = False  # it came here from outside, and is no optimizer's
        else:
            self._here[storage._cdata] = page
            self._now += page.nbytes
        for told in watchers:
            told(storage, True)

    # Around a run

    def arrived(self, storage: torch.UntypedStorage) -> None:
        """One came to the device by no operation: a variable of an earlier cell, or what a checkpoint had."""
        with self._lock:
            if storage.nbytes() >= self.least and self._known(storage) is None:
                page = self._adopt(storage, arrives=True)
                if page.moves:
                    if self.states_only:
                        self._send(page)
                    self._make_room(0, set())

    @contextmanager
    def steps_noticed(self) -> Iterator[None]:
        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            self.stepping += 1
            for t in _tensors(list(optimizer.state.values())):
                if self.states_only and (page := self._page_of(t)) is not None:
                    self._is_state(page)

        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            self.stepping -= 1

        hooks = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _is_state(self, page: PagedStorage) -> None:
        """One that was there before: as if it had been born in a step."""
        if page.moves or page.stays or not _can_leave(page.ref()):
            return
        if self._is_kept_here(page.nbytes):
            page.stays = True
        else:
            page.moves = True
            self._here[page.ref()._cdata] = page
            self._now += page.nbytes

    def told(self) -> PagedBytes:
        return PagedBytes(self.moved, self.host.taken)


last: Pager | None = None  # whose run this process is in, or was


@contextmanager
def paged(pager: Pager) -> Iterator[None]:
    """Run under it, with all threads that start meanwhile. What is on the host then is left there: who takes the
    results does so inside."""
    global last
    reach = Reach(pager)
    bootstrap: Any = vars(threading.Thread)["_bootstrap_inner"]

    def begins(thread: threading.Thread) -> None:
        with pager, reach:
            bootstrap(thread)

    last = pager
    threading.Thread._bootstrap_inner = begins  # type: ignore[attr-defined]
    sides.tell_arrived.append(pager.arrived)
    try:
        with steps_in_slices(pager.room), pager.steps_noticed(), pager, reach:
            yield
    finally:
        sides.tell_arrived.remove(pager.arrived)
        threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]


def _tensors(found: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(found) if isinstance(t, torch.Tensor)]


def _storage_of(t: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return t.untyped_storage()
    except (NotImplementedError, RuntimeError):
        if not is_traceable_wrapper_subclass(t):
            return None  # sparse ones have none
        raise NotUnderPlan(f"A tensor of the class {type(t).__name__}", "its parts are hidden from torch") from None


def _on_device(t: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    if is_fake(storage):
        fake_device = getattr(t, "fake_device", None)  # its class takes a second to import
        return fake_device is not None and fake_device.type not in ("cpu", "meta")
    return sides.on_device(storage)


def _is_hosts(storage: torch.UntypedStorage | None) -> bool:
    """On a slot, what came of a tensor there, and was noted as the host's when the function had returned."""
    return storage is not None and getattr(storage, sides.NOTE, None) == "host"


def _can_leave(storage: torch.UntypedStorage) -> bool:
    """Not what lies in memory that somebody else gave: a slot does not count it, and others may see it."""
    return is_fake(storage) or storage.device.type != "cpu" or (storage.resizable() and not storage.is_shared())


@cache
def _does(func: Any) -> tuple[bool, bool]:
    """Whether an operation looks at what it is given, and whether it may change some of it."""
    schema = func._schema
    aliases = [argument.alias_info for argument in schema.arguments if argument.alias_info is not None]
    writes = any(alias.is_write for alias in aliases)
    if func.namespace != "aten" or "batch_norm" in func._opname:
        return True, True  # norms change running statistics of which their schema says nothing, and who knows others
    return writes or not aliases or func._opname == "as_strided", writes
