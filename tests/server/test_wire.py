"""What goes over the API."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.actions.status import ClaimView, JobView, RoomView, Status
from jupyter_gpufit.devices.device import Process
from jupyter_gpufit.jobs.events import Display, Entry
from jupyter_gpufit.jobs.live import Memory
from jupyter_gpufit.server import wire
from jupyter_gpufit.server.encode import to_json
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

GPU = fake_device(total=80 * GiB)


def claim(bytes: int, *, mine: bool = False, user: str = "ada", device: str = "0") -> ClaimView:
    return ClaimView("c", user, mine, "j", "bert", "", (device,), bytes, False, 0.0, ())


def shares(room: RoomView, *claims: ClaimView) -> list[tuple[str, str, float]]:
    return [(part.kind, part.user, part.bytes / GiB) for part in wire.parts_of(GPU, room, claims)]


def test_a_device_in_parts() -> None:
    room = RoomView(free=0, foreign=9 * GiB, held_for="", reserve=8 * GiB, strangers=(Process(1, "eve", 5 * GiB),))
    assert shares(room, claim(20 * GiB, mine=True, user="me"), claim(10 * GiB), claim(7 * GiB, device="1")) == [
        ("mine", "me", 20),
        ("claim", "ada", 10),
        ("foreign", "eve", 5),
        ("foreign", "", 4),
        ("reserve", "", 8),
        ("free", "", 33),
    ]


def test_what_is_used_of_a_claim() -> None:
    room = RoomView(free=0, foreign=0, held_for="", strangers=(Process(3, "ada", GiB),))
    processes = (Process(1, "ada", 12 * GiB), Process(3, "ada", GiB), Process(4, "eve", None))
    job = JobView("j", "bert", "running", "", 0.0, 0.0, None, "", 1, 0, "", memory=Memory(used=5 * GiB, peak=6 * GiB))
    claims = [claim(20 * GiB, mine=True, user="me"), claim(10 * GiB), claim(7 * GiB), claim(GiB, user="eve")]
    parts = wire.parts_of(replace(GPU, processes=processes), room, claims, [job])
    assert [part.used for part in parts] == [5 * GiB, 10 * GiB, 2 * GiB, None, None, None]


@given(st.lists(st.integers(0, 1 << 60)), st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_the_parts_are_the_whole(claims: list[int], foreign: int, reserve: int) -> None:
    """Whatever somebody's claim says."""
    parts = wire.parts_of(GPU, RoomView(0, foreign, "", reserve), [claim(count) for count in claims])
    assert sum(part.bytes for part in parts) == GPU.total and all(part.bytes >= 0 for part in parts)


def test_a_broken_device_has_no_parts() -> None:
    assert wire.parts_of(fake_device(problem="lost"), RoomView(0, 0, ""), []) == ()


def test_a_status_is_put_together() -> None:
    job = JobView("j", "bert", "queued", "", 0.0, 0.0, None, "", 1, 0, "")
    reading = Status((GPU,), (job,), "", 5.0, rooms=(RoomView(72 * GiB, 0, "", 8 * GiB),))
    record = json.loads(to_json(wire.status_of(reading, {GPU.uuid: [(4.0, 37, GiB)]}, "1.0")))
    [device], [shown] = record["devices"], record["jobs"]
    assert device["room"]["free"] == 72 * GiB and device["history"] == [[4.0, 37, GiB]]
    assert shown["can"]["stop"] == "" and shown["can"]["move"][0]["device"] == "0"
    assert (record["version"], record["time"]) == ("1.0", 5.0)


def test_a_lab_that_cannot_be_read_leaves_devices_without_rooms() -> None:
    status = wire.status_of(Status((GPU,), (), "the lab cannot be read", 5.0), {}, "1.0")
    assert status.devices[0].room.free == 0 and status.problem


def test_json_is_such_as_browsers_read() -> None:
    """They refuse nan as a word."""
    display = Display({"application/json": {"loss": [math.nan, 1.0, math.inf]}})
    entry = json.loads(to_json(wire.entry_of(Entry(3, 1.0, display))))
    assert entry["event"]["data"] == {"application/json": {"loss": [None, 1.0, None]}}
    assert (entry["number"], entry["event"]["kind"]) == (3, "display")
