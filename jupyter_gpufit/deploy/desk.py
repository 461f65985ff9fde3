"""Where calls come in and answers go out: one thread, one queue, one batch at a time on one instance.

    a call comes -> is it one the model takes? -> is there room? -> it waits -> it runs, with others like it -> answer

What is run next is decided when the instance is free, so that under load the batches are as large as they may be, and
without any a call does not wait for others. To change the instance (a move) is to change it between two batches: no
call sees it.
"""

from __future__ import annotations

import os
import queue
import selectors
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import inf
from pathlib import Path

from ..calls.protocol import LARGEST, Call, CallReply, encode
from ..errors import BadCall
from ..models.signature import Signature
from ..system.foreign import parsed_record
from .checked import checked
from .door import Caller, Door
from .figures import Figures
from .profile import Profile, Span
from .residents import Residents
from .schedule import WaitingCall, told_of
from .standing import StandingInstance
from .waiting import Batch, QueueIsFull, WaitingCalls, WouldBeLate


class Desk:
    """Of one job. Its methods are for other threads; those with an underscore, and the door's, run in its own."""

    def __init__(
        self, signatures: Sequence[Signature], rows: int, waiting: int, died: Callable[[StandingInstance], None]
    ) -> None:
        self.figures = Figures()
        self.refused = 0  # calls for which there was no room, or not the time
        self.late = 0  # calls that were taken, and could not be answered in time
        self._signatures = signatures
        self._told = [told_of(one) for one in signatures]
        self._rows = rows
        each = len(signatures)
        self._queue = WaitingCalls(
            waiting, rows, [Profile() for _ in signatures], Residents([0] * each), together=[False] * each
        )
        self._died = died
        self._instance: StandingInstance | None = None
        self._running = Batch([], [])
        self._began = 0.0
        self._coming: int | None = None  # the model whose weights are loaded meanwhile
        self._next: tuple[StandingInstance | None, Future[StandingInstance | None]] | None = None
        self._left = ""  # why there are no answers any more
        self._wishes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stir = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stir, selectors.EVENT_READ, self._obey)
        self._door = Door(self._selector, self)
        self._ends = False
        self._thread = threading.Thread(target=self._work, name="gpufit-desk", daemon=True)

    # For other threads ---------------------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """Listen there, for this user alone."""
        self._door.open(path)
        self._thread.start()

    def change(self, instance: StandingInstance | None) -> Future[StandingInstance | None]:
        """Go on with this one, or with none; done, with the one before, when that has nothing more to do."""
        changed: Future[StandingInstance | None] = Future()

        def wish() -> None:
            self._next = instance, changed
            self._go_on()

        self._wish(wish)
        return changed

    def leave(self, why: str) -> None:
        """Take no more calls, and say why; those that wait are answered first."""

        def wish() -> None:
            self._left = why

        self._wish(wish)

    def give_up(self, why: str) -> None:
        """Answer no call any more."""
        self._wish(lambda: self._give_up(why))

    def close(self) -> None:
        """End the thread; to be called once."""

        def wish() -> None:
            self._ends = True

        self._wish(wish)
        if self._thread.is_alive():
            self._thread.join()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _wish(self, wish: Callable[[], None]) -> None:
        self._wishes.put(wish)
        with suppress(OSError):  # its thread has ended, and hears nobody any more
            os.eventfd_write(self._stir, 1)

    # In its own thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._ends:
            for key, _ in self._selector.select():
                running = self._running
                try:
                    if self._running.calls:  # first, each time: while a hundred call, it would stand idle
                        self._hear_instance()
                    key.data()
                except Exception:  # this thread must not die: all who call would wait for ever
                    traceback.print_exc()
                    self._fail(running)
        self._door.close()
        self._selector.close()
        stir, self._stir = self._stir, -1  # whoever wishes something later must not write to another file of its number
        os.close(stir)

    def _obey(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._stir)
        while True:
            try:
                wish = self._wishes.get_nowait()
            except queue.Empty:
                return
            wish()

    # The door's, in this thread, too.

    def forget(self, client: Caller) -> None:
        self._queue.forget(lambda call: call.client == client.number)

    def forget_region(self, client: Caller) -> None:
        if client.known_to is not None and client.known_to is self._instance:
            with suppress(OSError):
                client.known_to.say({"do": "forget", "region": client.number})
        client.known_to = None

    def hear(self, client: Caller, packet: bytes) -> None:
        try:
            call = checked(packet, self._signatures, client.region)
        except BadCall as error:
            self._door.reply(client, CallReply(bad=str(error)))
            return
        except (ValueError, KeyError, TypeError, OSError) as error:
            self._door.reply(client, CallReply(bad=f"The call cannot be read: {error}."))
            return
        self._take(client, call)

    def _take(self, client: Caller, call: Call) -> None:
        if self._left:
            self._door.reply(client, CallReply(left=self._left))
            return
        now = time.monotonic()
        if call.heard is not None and client.sent < call.heard:
            self._queue.reserve.way.saw(min(call.heard, now) - client.sent)
            client.sent = inf
        rows = call.inputs[0].shape[0] if self._signatures[call.model].may_batch else 1
        running = self._running.span
        free = Span(self._began + running.usual, self._began + running.most) if self._running.calls else Span(now, now)
        refused = self._queue.add(WaitingCall(call, client.number, now, rows, self._told[call.model]), now, free)
        self._are_late(self._queue.take_late(), now, max(0.0, free.most - now))
        match refused:
            case QueueIsFull(waiting):
                self.refused += 1
                seconds = self.figures.wait(self._queue.rows + sum(one.rows for one in self._running.calls))
                self._door.reply(client, CallReply(waiting=waiting, seconds=seconds))
            case WouldBeLate(seconds):
                self.refused += 1
                self._door.reply(client, CallReply(late=True, seconds=seconds))
            case None:
                client.waits = True
                self._go_on()
                self._load_ahead()

    def _go_on(self) -> None:
        """Have the next batch run, if nothing runs."""
        if self._running.calls:
            return
        if self._next is not None and (self._next[0] is not None or not len(self._queue)):
            self._change()
        instance = self._instance
        if instance is None or instance.loaded is None:
            return
        now = time.monotonic()
        batch = self._queue.next(now)
        self._are_late(batch.late, now, batch.span.most)
        if not batch.calls:
            return
        self._running, self._began = batch, now
        try:
            for one in batch.calls:
                self._make_known(self._door.clients[one.client], instance)
            instance.say(_order(batch, self._after(batch, instance)))
            instance.in_runs += batch.load
        except OSError:
            return self._instance_died()
        self._load_ahead()

    def _load_ahead(self) -> None:
        """While something runs, have loaded what is wanted next and not there, as far as there is room beside."""
        if self._coming is not None or not self._running.calls or self._instance is None:
            return
        if (found := self._queue.ahead(self._running.calls[0].model)) is None:
            return
        with suppress(OSError):  # its end is heard on the other channel
            self._instance.load_ahead(*found)
            self._coming = found[0]

    def _after(self, batch: Batch, instance: StandingInstance) -> int:
        """How many of those loads have to be done before it runs."""
        return instance.ordered if batch.load or self._coming == batch.calls[0].model else 0

    def _hear_load(self) -> None:
        if (instance := self._instance) is None:
            return
        try:
            packet = instance.loads.recv(LARGEST)
        except OSError:
            return
        if not packet:  # so is the other channel
            self._selector.unregister(instance.loads)
            return
        said = parsed_record(packet)
        self._queue.profiles[said["loaded"]].loaded(said["seconds"])
        self._coming = None
        self._load_ahead()

    def _are_late(self, calls: Sequence[WaitingCall], now: float, seconds: float) -> None:
        """They were taken, and what was foreseen does not hold; another one could be answered in so many seconds."""
        self.late += len(calls)
        self._queue.answered(calls, now)  # at the earliest
        for one in calls:
            run = self._queue.profiles[one.model].run(one.rows)
            if (client := self._door.clients.get(one.client)) is not None:
                client.waits = False
                self._door.reply(client, CallReply(late=True, taken=True, seconds=seconds + run.most))

    def _make_known(self, client: Caller, instance: StandingInstance) -> None:
        if client.known_to is not instance:
            instance.say({"do": "know", "region": client.number}, (client.region,))
            client.known_to = instance

    def _change(self) -> None:
        assert self._next is not None
        (instance, changed), self._next = self._next, None
        before, self._instance = self._instance, instance
        self._coming = None
        if before is not None:
            self._unregister(before)
        if instance is not None:
            self._selector.register(instance.channel, selectors.EVENT_READ, self._hear_instance)
            self._selector.register(instance.loads, selectors.EVENT_READ, self._hear_load)
            assert instance.loaded is not None
            loaded = instance.loaded
            self._queue.begin(loaded.profiles, loaded.residents, [one.batches for one in loaded.models])
        changed.set_result(before)

    def _unregister(self, instance: StandingInstance) -> None:
        for channel in (instance.channel, instance.loads):
            with suppress(KeyError):
                self._selector.unregister(channel)

    def _hear_instance(self) -> None:
        if (instance := self._instance) is None:  # it has died since it was heard
            return
        try:
            packet = instance.channel.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._instance_died()
            return
        said = parsed_record(packet)
        now, batch, self._running = time.monotonic(), self._running, Batch([], [])
        if not batch.calls:  # it was given up meanwhile
            return
        if said.get("late"):
            self._queue.not_run(batch)
            self._are_late(batch.calls, now, batch.span.most)
            return self._go_on()
        self._learn(batch, now - self._began - said["waited"], said["loading"])
        self._queue.answered(batch.calls, now)
        self.figures.ran(sum(one.rows for one in batch.calls), said["seconds"])
        for one, answer in zip(batch.calls, said["done"], strict=True):
            self.figures.answered(now, now - one.since)
            self.late += now > one.deadline
            if (client := self._door.clients.get(one.client)) is not None:
                client.waits = False
                client.sent = now if one is batch.calls[0] else inf
                self._door.send(client, encode(answer))
        self._go_on()

    def _learn(self, batch: Batch, seconds: float, loading: float) -> None:
        """Seconds as they were seen here: the way there and back is part of what a call waits for."""
        profile = self._queue.profiles[batch.calls[0].model]
        if batch.load:
            profile.loaded(loading)
        profile.ran(sum(one.rows for one in batch.calls), max(0.0, seconds - loading))

    def _fail(self, running: Batch) -> None:
        """A defect of ours, between us and the instance, while that ran: what it does now nobody can say."""
        if self._instance is not None:
            self._running = Batch([*running.calls, *self._running.calls], [])  # who has an answer does not wait
            self._instance_died()

    def _instance_died(self) -> None:
        instance, self._instance = self._instance, None
        assert instance is not None
        self._unregister(instance)
        self._give_up("its process ended unexpectedly during the call. `gpufit status` says more.")
        self._died(instance)

    def _give_up(self, why: str) -> None:
        self._left = self._left or why
        running, self._running = self._running, Batch([], [])
        for one in (*running.calls, *self._queue.clear()):
            if (client := self._door.clients.get(one.client)) is not None and client.waits:
                client.waits = False
                self._door.reply(client, CallReply(failed=why))
        if self._next is not None:  # who waits for the change must not wait for ever
            self._change()


def _order(batch: Batch, after: int) -> dict[str, object]:
    """What the instance is told: which weights go and come, until when it may begin, and where the inputs lie.

    And after how many of the loads that it does meanwhile.
    """
    order: dict[str, object] = {
        "do": "run",
        "model": batch.calls[0].model,
        "calls": [{"region": one.client, "call": one.call.said} for one in batch.calls],
    }
    if batch.load:
        order |= {"load": True, "leaving": batch.leaving}
    if after:
        order["after"] = after
    deadline = min(one.deadline for one in batch.calls)
    return order if deadline == inf else order | {"latest": deadline}
