"""Weights are loaded while another model runs: what the desk orders, and what the instance's loader does of it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.calls.client import _Connection
from jupyter_gpufit.calls.protocol import LARGEST, encode
from jupyter_gpufit.deploy.desk import Desk
from jupyter_gpufit.deploy.loader import Loader
from jupyter_gpufit.deploy.residents import Residents
from jupyter_gpufit.deploy.session import LoadedModels, Model, TriedModel
from jupyter_gpufit.deploy.standing import StandingInstance
from jupyter_gpufit.models.signature import Signature, Slot

SIGNATURE = Signature((Slot("x", "float32", ("batch", 2)),), (Slot("y", "float32", ("batch", 2)),))
DONE = {"done": [{"outputs": []}], "seconds": 0.01, "loading": 0.0, "waited": 0.0}


def test_it_is_loaded_beside_what_runs_if_there_is_room_and_nobody_leaves_who_is_wanted_before() -> None:
    residents = Residents([100] * 4, 300, {0: None, 1: None, 2: None})
    assert residents.use_soon(3, running=0, wanted=[1, 3, 2]) == [2]
    assert residents.use_soon(2, running=0, wanted=[1, 3, 2]) is None
    assert Residents([100] * 2, 100, {0: None}).use_soon(1, running=0, wanted=[1]) is None
    small = Residents([100] * 2, 200, {0: None})
    assert small.use_soon(1, running=0, wanted=[1]) == [] and small.all_there


class Scripted:
    """The instance's ends of its channels."""

    def __init__(self, room: int) -> None:
        models = tuple(TriedModel(batches=True, runs=((1, 0.01),), weights=100, load=0.01) for _ in range(3))
        channel, self.channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        loads, self.loads = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.setblocking(False)
        loads.setblocking(False)
        process = subprocess.Popen([sys.executable, "-S", "-c", ""])
        process.wait()
        self.standing = StandingInstance(process, channel, loads, -1, "cpu:0")
        self.standing.loaded = LoadedModels(seconds=0.0, took=0, models=models, room=room, inside=(0,))

    def run(self) -> dict[str, Any]:
        """The next order to run something."""
        while True:
            packet, fds, _, _ = socket.recv_fds(self.channel, LARGEST, 1)
            for fd in fds:
                os.close(fd)
            said: dict[str, Any] = json.loads(packet)
            if said["do"] == "run":
                return said

    def load(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.loads.recv(LARGEST))
        return found


@contextmanager
def at_a_desk(folder: Path, room: int) -> Iterator[tuple[Scripted, list[_Connection]]]:
    """With three callers."""
    instance, connections = Scripted(room), []
    desk = Desk([SIGNATURE] * 3, 4, 8, lambda died: None)
    address = folder / "calls"
    desk.open(address)
    try:
        desk.change(instance.standing).result()
        connections = [_Connection(str(address)) for _ in range(3)]
        yield instance, connections
    finally:
        for connection in connections:
            connection.close()
        desk.close()
        instance.standing.close()
        instance.channel.close()
        instance.loads.close()


def ask(connection: _Connection, model: int) -> None:
    connection.ask([np.zeros((1, 2), np.float32)], model)


def test_what_is_wanted_next_is_loaded_while_another_one_runs(tmp_path: Path) -> None:
    with at_a_desk(tmp_path, room=200) as (instance, [first, second, third]):
        ask(first, 0)
        assert instance.run()["model"] == 0
        ask(second, 1)
        assert instance.load() == {"model": 1, "leaving": [], "after": 0}  # before the first one was answered
        ask(third, 2)  # for which there is no room beside the first two
        instance.loads.send(encode({"loaded": 1, "seconds": 0.01}))
        instance.channel.send(encode(DONE))
        first.reply()
        order = instance.run()
        assert order["model"] == 1 and "load" not in order
        assert instance.load() == {"model": 2, "leaving": [0], "after": 0}
        instance.channel.send(encode(DONE))
        second.reply()
        order = instance.run()
        assert order["model"] == 2 and "load" not in order and order["after"] == 2  # it has not said that it is there
        instance.channel.send(encode(DONE))
        third.reply()


def test_without_room_beside_what_runs_it_is_loaded_when_it_runs(tmp_path: Path) -> None:
    with at_a_desk(tmp_path, room=100) as (instance, [first, second, _]):
        ask(first, 0)
        assert instance.run()["model"] == 0
        ask(second, 1)
        instance.channel.send(encode(DONE))
        first.reply()
        order = instance.run()
        assert (order["model"], order["load"], order["leaving"]) == (1, True, [0])
        assert not select.select([instance.loads], [], [], 0)[0]
        instance.channel.send(encode(DONE))
        second.reply()


class Slow(Model):
    """It is there once it may be."""

    def __init__(self, log: list[str], may: threading.Event) -> None:
        self.log = log
        self.may = may

    def load(self) -> None:
        self.may.wait()
        self.log.append("loaded")

    def evict(self) -> None:
        self.log.append("evicted")


@pytest.fixture
def channels() -> Iterator[Sequence[socket.socket]]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


def test_a_run_waits_for_the_load_that_it_needs_and_for_no_other(channels: Sequence[socket.socket]) -> None:
    ours, theirs = channels
    log: list[str] = []
    may = threading.Event()
    loader = Loader([Slow(log, may), Slow(log, may)], theirs)
    ours.send(encode({"model": 0, "leaving": [1], "after": 0}))
    loader.wait(0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loader.wait, 1)
        may.set()
        waiting.result()
    assert log == ["evicted", "loaded"] and json.loads(ours.recv(LARGEST))["loaded"] == 0


def test_a_load_waits_for_those_of_runs_that_were_ordered_before_it(channels: Sequence[socket.socket]) -> None:
    """Else a run would take away what came by an order after its own, and its model would run without weights."""
    ours, theirs = channels
    log: list[str] = []
    may = threading.Event()
    may.set()
    loader = Loader([Slow(log, may), Slow(log, may)], theirs)
    ours.send(encode({"model": 0, "leaving": [1], "after": 1}))
    assert not select.select([ours], [], [], 0.2)[0]
    log.append("a run has loaded")
    loader.loaded_in_run()
    loader.wait(1)
    assert log == ["a run has loaded", "evicted", "loaded"]


def test_what_is_loaded_ahead_comes_after_what_the_run_before_loads(tmp_path: Path) -> None:
    with at_a_desk(tmp_path, room=200) as (instance, [first, second, _]):
        ask(first, 1)
        assert instance.run()["load"]
        ask(second, 2)
        assert instance.load() == {"model": 2, "leaving": [0], "after": 1}
        instance.loads.send(encode({"loaded": 2, "seconds": 0.01}))
        for connection in (first, second):
            instance.channel.send(encode(DONE))
            connection.reply()


def test_a_load_that_fails_is_an_error_of_the_run_that_needs_it(channels: Sequence[socket.socket]) -> None:
    ours, theirs = channels
    loader = Loader([], theirs)
    ours.send(encode({"model": 0, "leaving": [], "after": 0}))
    with pytest.raises(IndexError):
        loader.wait(1)
    loader.wait(0)
