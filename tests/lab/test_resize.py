"""Holding less of a device, and more again: at no moment is it granted twice, whatever dies or was forked."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from jupyter_gpufit.devices.device import Device, Process
from jupyter_gpufit.lab import Granted, Lab, claim, resize
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.usage import read_uses
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.players import Part, Player, Stage, holder, start
from tests.lab.values import request, slots

ONE = slots(4)


async def look() -> Sequence[Device]:
    return ONE


def held(lab: Lab) -> list[int]:
    return [claim.hold.bytes for claim in LedgerReader(lab.path).read().claims]


@pytest.mark.anyio
async def test_who_holds_less_lets_others_come_and_gives_all_back_at_the_end(lab: Lab) -> None:
    async with claim(lab, request(None), look) as granted:
        fd = granted.fds
        assert await resize(granted, GiB, look)
        assert (granted.bytes, granted.alone, granted.fds) == (GiB, False, fd)
        async with claim(lab, request(3 * GiB), look) as other:
            assert sorted(held(lab)) == [GiB, 3 * GiB]
            assert not await resize(granted, 2 * GiB, look), "others have the rest"
            assert (granted.bytes, other.bytes) == (GiB, 3 * GiB)
        assert await resize(granted, 2 * GiB, look)
        assert await resize(granted, None, look)
        assert granted.alone and held(lab) == [4 * GiB]

    assert not held(lab) and not [name for name in os.listdir(lab.path) if name.startswith("c.")]


@pytest.mark.anyio
async def test_its_use_counts_by_what_it_held(lab: Lab) -> None:
    async with claim(lab, request(None), look) as granted:
        assert await resize(granted, GiB, look)

    shares = sorted(use.share for use in read_uses(lab.path)[os.geteuid()])
    assert shares == [0.25, 1.0]


@pytest.mark.anyio
async def test_a_child_that_was_forked_before_holds_nothing_of_what_was_given_up(lab: Lab) -> None:
    async with claim(lab, request(None), look) as granted:
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            assert await resize(granted, GiB, look)
            assert held(lab) == [GiB]
            async with claim(lab, request(3 * GiB), look):
                pass
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)  # noqa: ASYNC222 - it is dead


@pytest.mark.anyio
async def test_more_is_had_only_where_no_process_outside_the_lab_has_it(lab: Lab) -> None:
    """Its own memory is no stranger's, also where it has outgrown what it holds."""
    used = strangers = 0

    async def gpu() -> Sequence[Device]:
        own = Process(pid=os.getpid(), user="ada", bytes=used)
        return [fake_device("GPU-a", total=20 * GiB, free=20 * GiB - used - strangers, processes=(own,))]

    async with claim(lab, request(None), gpu) as granted:
        used = 4 * GiB
        assert await resize(granted, 4 * GiB, gpu)
        assert await resize(granted, 6 * GiB, gpu)
        strangers = 11 * GiB
        assert not await resize(granted, 9 * GiB, gpu)
        assert await resize(granted, 5 * GiB, gpu), "less can always be had"


@pytest.mark.anyio
async def test_a_look_in_the_middle_of_a_change_finds_what_has_replaced_the_claim(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claim(lab, request(None), look) as granted:
        reader = LedgerReader(lab.path)
        open_one = reader._look
        changed: list[tuple[str, int]] = []

        def late(key: tuple[str, int]) -> Any:
            """The claim changes between the listing and the first look at it."""
            if not changed:
                changed.append(key)
                assert anyio.from_thread.run(resize, granted, GiB, look)
            return open_one(key)

        monkeypatch.setattr(reader, "_look", late)
        seen = await anyio.to_thread.run_sync(reader.read)

        assert changed and [claim.hold.bytes for claim in seen.claims] == [GiB]


@pytest.mark.anyio
async def test_in_a_lab_that_was_emptied_everything_stays(lab: Lab) -> None:
    async with claim(lab, request(None), look) as granted:
        (lab.path / granted.claim.id).unlink()

        assert not await resize(granted, GiB, look)
        assert granted.alone


def breathes(lab: Lab) -> Part:
    """Holds less and more, again and again."""

    def part(stage: Stage) -> None:
        async def run() -> None:
            async with claim(lab, request(2 * GiB, name="breathes"), look) as granted:
                while True:
                    stage.say(f"holds {await _turn(granted)}")

        anyio.run(run)

    async def _turn(granted: Granted) -> int:
        await resize(granted, random.choice([GiB, 2 * GiB, 3 * GiB]), look)
        return granted.bytes

    return part


@pytest.mark.slow(11)
def test_killed_at_any_moment_it_leaves_nothing_and_never_shows_too_little_or_too_much(
    lab: Lab, players: list[Player]
) -> None:
    chance = random.Random(5)
    for _ in range(12):
        both = [start(players, breathes(lab)) for _ in range(2)]
        for player in both:
            player.hear("holds")
        until = time.monotonic() + chance.uniform(0, 0.1)  # the moment of the kill is the point here
        while time.monotonic() < until:
            now = held(lab)
            assert GiB <= sum(now), "it shows as holding something at every look"
        for player in both:
            player.kill()

    heir = start(players, holder(lab, request(4 * GiB, name="heir"), ONE))
    heir.hear("holds cpu:0")


@pytest.mark.slow(11)
def test_two_never_hold_more_than_there_is(lab: Lab, players: list[Player]) -> None:
    both = [start(players, breathes(lab)) for _ in range(2)]
    for _ in range(200):
        for player in both:
            player.hear("holds")
        last: dict[int, int] = {}  # a claim that is being replaced shows beside the one that replaces it
        for one in LedgerReader(lab.path).read().claims:
            last[one.pid] = min(one.hold.bytes, last.get(one.pid, one.hold.bytes))
        assert sum(last.values()) <= 4 * GiB
