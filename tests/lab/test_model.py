"""The lab against plain models of it, in whatever order things happen: hypothesis looks for one that breaks a rule."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.order import fair_order, used_by_user
from jupyter_gpufit.lab.place import Space, place, rooms
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.published import Published, publish, sweep
from jupyter_gpufit.lab.record import Claim, Hold, Ticket
from jupyter_gpufit.lab.turn import Go, whose_turn
from tests.lab.values import ADA, BOB, EVE, claim, request, slots, ticket

POLICY = Policy()
SIZE = 10  # of a device, in bytes: large enough to share, small enough to fill
DEVICES = [replace(device, total=SIZE, free=SIZE) for device in slots(1, 1)]
UUIDS = [device.uuid for device in DEVICES]


class FairLab(RuleBasedStateMachine):
    """Everybody's decisions are pure, so a lab of many users is played through here in one process."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Ticket] = []
        self.claims: list[Claim] = []
        self.strangers = dict.fromkeys(UUIDS, 0)
        self.clock = 100

    @property
    def spaces(self) -> list[Space]:
        return [Space(device, self.strangers[device.uuid]) for device in DEVICES]

    def order(self, tickets: list[Ticket], claims: list[Claim]) -> list[Ticket]:
        return fair_order(tickets, used_by_user(claims, {}, POLICY, now=self.clock), POLICY)

    @precondition(lambda self: len(self.waiting) < 6)
    @rule(
        uid=st.sampled_from([ADA, BOB, EVE]),
        needed=st.one_of(st.integers(1, SIZE), st.integers(1, SIZE // 2), st.none()),
        exclusive=st.sampled_from([False, False, True]),
        count=st.sampled_from([1, 1, 2]),
        gpu=st.sampled_from(["", "", "cpu:0"]),
    )
    def enqueue(self, uid: int, needed: int | None, exclusive: bool, count: int, gpu: str) -> None:
        self.clock += 1
        asked: dict[str, Any] = {"exclusive": exclusive, "count": count if not gpu else 1, "gpu": gpu}
        self.waiting.append(ticket(uid, self.clock, needed, **asked))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.waiting.remove(data.draw(st.sampled_from(self.waiting)))

    @precondition(lambda self: self.waiting and len(self.claims) < 6)
    @rule(data=st.data())
    def somebody_claims(self, data: st.DataObject) -> None:
        """The waiters look in any order, and the first to see its turn claims: the last in the queue, perhaps."""
        queue = self.order(self.waiting, self.claims)
        for mine in data.draw(st.permutations(self.waiting)):
            turn = whose_turn(mine, queue, self.spaces, self.claims, POLICY)
            if isinstance(turn, Go):
                uuids = [device.uuid for device in turn.placement.devices]
                made = claim(uuids, turn.placement.bytes, mine.uid, self.clock, turn.placement.alone)
                for other in queue[: queue.index(mine)]:
                    self.check_not_delayed(other, made)
                self.waiting.remove(mine)
                self.claims.append(made)
                return

    def check_not_delayed(self, other: Ticket, made: Claim) -> None:
        """Whichever claims end and whichever strangers leave: if it could then start without us, it can with us."""
        for size in range(len(self.claims) + 1):
            for left in combinations(self.claims, size):
                for strangers in (True, False):
                    spaces = self.spaces if strangers else [Space(device) for device in DEVICES]
                    without, with_us = rooms(spaces, left), rooms(spaces, [*left, made])
                    if place(other.request, without) is not None and place(other.request, with_us) is None:
                        raise AssertionError(f"{made.hold} delays {other.request}")

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def end_or_kill(self, data: st.DataObject) -> None:
        self.claims.remove(data.draw(st.sampled_from(self.claims)))

    @rule(uuid=st.sampled_from(UUIDS), bytes=st.sampled_from([0, 0, 0, 3, 7]))
    def strangers_come_and_go(self, uuid: str, bytes: int) -> None:
        self.strangers[uuid] = bytes

    @rule(by=st.integers(1, 50))
    def time_passes(self, by: int) -> None:
        self.clock += by

    @rule(by=st.integers(1, 50))
    def the_clock_is_set_back(self, by: int) -> None:
        self.clock = max(1, self.clock - by)

    @precondition(lambda self: len(self.waiting) == 6)  # rarely, or nothing would ever come of anything
    @rule()
    def reboot(self) -> None:
        self.waiting, self.claims, self.strangers = [], [], dict.fromkeys(UUIDS, 0)

    @invariant()
    def no_device_is_given_away_twice(self) -> None:
        for uuid in UUIDS:
            holds = [claim.hold for claim in self.claims if uuid in claim.hold.devices]
            assert sum(hold.bytes for hold in holds) <= SIZE
            assert len(holds) < 2 or not any(hold.alone for hold in holds)

    @invariant()
    def every_observer_sees_the_same_order(self) -> None:
        tickets, claims = list(self.waiting), list(self.claims)
        random.Random(self.clock).shuffle(tickets)
        random.Random(self.clock).shuffle(claims)
        assert self.order(tickets, claims) == self.order(self.waiting, self.claims)

    @invariant()
    def an_idle_lab_serves_the_head(self) -> None:
        if self.waiting and not self.claims and not any(self.strangers.values()):
            queue = self.order(self.waiting, [])
            assert isinstance(whose_turn(queue[0], queue, self.spaces, [], POLICY), Go)


class Files(RuleBasedStateMachine):
    """The files of the lab against a set of what was published and not yet given back."""

    files: Bundle[Published] = Bundle("files")

    def __init__(self) -> None:
        super().__init__()
        self.lab = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
        self.always = LedgerReader(self.lab)  # one that remembers, beside one that comes new
        self.live: dict[str, bool] = {}
        self.nameless: set[str] = set()  # claims that are held, and whose names somebody took away
        self.open: list[Published] = []

    def teardown(self) -> None:
        for file in self.open:
            file.drop()
        shutil.rmtree(self.lab)

    @rule(target=files, claims=st.booleans())
    def publish(self, claims: bool) -> Published:
        hold = Hold(devices=("cpu:0",), bytes=1, alone=False) if claims else None
        file = publish(self.lab, request(), hold)
        self.live[file.id] = claims
        self.open.append(file)
        return file

    @rule(file=consumes(files))
    def give_back(self, file: Published) -> None:
        file.drop()
        self._has_gone(file)

    @rule(file=consumes(files))
    def die(self, file: Published) -> None:
        self._close(file)
        self._has_gone(file)

    def _close(self, file: Published) -> None:
        """All that is left to do when a process is killed."""
        if file.fd >= 0:
            os.close(file.fd)
            file.fd = -1

    def _has_gone(self, file: Published) -> None:
        self.live.pop(file.id, None)
        self.nameless.discard(file.id)

    @rule(file=files)
    def lower(self, file: Published) -> None:
        if file.fd >= 0:
            file.lower()

    @rule()
    def sweep(self) -> None:
        sweep(self.lab)
        mine = re.compile(rf"[qc]\.{os.geteuid()}\.[0-9a-f]{{16}}")
        assert {path.name for path in self.lab.iterdir() if mine.fullmatch(path.name)} == (
            set(self.live) - self.nameless
        )

    @rule(name=st.sampled_from(["c.0.0000000000000000", "q.1.0000000000000001", "c.x", "mutex", ".c", "c.1"]))
    def junk(self, name: str) -> None:
        (self.lab / name).write_bytes(b"{")
        if name.startswith(("c.0.", "q.1.")):
            (self.lab / name).chmod(0o666)

    @rule()
    def reboot(self) -> None:
        self.take_the_names_away()
        for file in self.open:
            self._close(file)
        self.live, self.nameless = {}, set()

    @rule()
    def take_the_names_away(self) -> None:
        """As somebody who empties /run: what waits has to wait anew, and what is held is held."""
        for path in self.lab.iterdir():
            path.unlink()
        self.live = {name: True for name, claims in self.live.items() if claims}
        self.nameless = set(self.live)

    @invariant()
    def what_is_published_counts_and_nothing_else(self) -> None:
        hidden: set[str]
        for reader, hidden in ((self.always, set()), (LedgerReader(self.lab), self.nameless)):
            seen = reader.read()
            live = {name: claims for name, claims in self.live.items() if name not in hidden}
            assert [claim.id for claim in seen.claims] == [name for name, claims in live.items() if claims]
            assert [ticket.id for ticket in seen.tickets] == [name for name, claims in live.items() if not claims]


TestFairLab = pytest.mark.slow(FairLab.TestCase)
TestFairLab.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestFiles = pytest.mark.slow(Files.TestCase)
TestFiles.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
