"""Every button of a job, in the middle of a blocking cell: the whole way from the browser to the worker and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import Kernel
from tests.server.running import Client, Server

pytestmark = pytest.mark.slow

CELL = """%%gpufit train --name {name} --memory 512MiB
import os, time
ticks = 0
while not os.path.exists({go!r}):
    ticks += 1
    time.sleep(0.02)
"""


def state_of(name: str, *states: str, device: str = "") -> Callable[[dict[str, Any]], bool]:
    def holds(status: dict[str, Any]) -> bool:
        job = next((job for job in status["jobs"] if job["name"] == name), None)
        return job is not None and job["state"] in states and device in ("", job["device"])

    return holds


def job_in(status: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(job for job in status["jobs"] if job["name"] == name)
    return found


def press(server: Server, client: Client, id: str, verb: str, **body: str) -> str:
    """Press a button; what was said at once."""
    answer = server.post(f"jobs/{id}/{verb}", body)
    assert answer.status == 202, answer
    said: str = answer.body["said"]
    return said


def test_each_button_in_its_turn(server: Server, kernel: Kernel, tmp_path: Path) -> None:
    with server.client() as client:
        sent = kernel.send(CELL.format(name="pressed", go=str(tmp_path / "go")))
        status = client.status(state_of("pressed", "running"))
        job = job_in(status, "pressed")
        id, here = job["id"], job["device"]
        there = next(device["label"] for device in status["devices"] if device["label"] != here)

        assert "saved at its next safe point" in press(server, client, id, "checkpoint")
        saved = client.status(lambda status: job_in(status, "pressed")["checkpoint"] is not None)
        assert job_in(saved, "pressed")["state"] in ("running", "saving")

        client.status(state_of("pressed", "running"))
        assert {target["device"] for target in job["can"]["move"] if target["ok"]} == {there}
        press(server, client, id, "move", to=there)
        client.status(state_of("pressed", "running", device=there))

        press(server, client, id, "release")
        client.status(state_of("pressed", "released"))
        released = client.status(lambda status: not status["claims"])  # its process has ended
        can = job_in(released, "pressed")["can"]
        assert can["resume"] == "" and can["checkpoint"] and can["stop"]
        assert server.post(f"jobs/{id}/checkpoint").status == 409
        kernel.finish(sent)

        press(server, client, id, "resume")
        client.status(state_of("pressed", "running"))
        (tmp_path / "go").touch()
        client.status(state_of("pressed", "done"))


def test_a_device_that_is_not_there(server: Server, kernel: Kernel, tmp_path: Path) -> None:
    with server.client() as client:
        sent = kernel.send(CELL.format(name="stays", go=str(tmp_path / "go")))
        id = job_in(client.status(state_of("stays", "running")), "stays")["id"]
        answer = server.post(f"jobs/{id}/move", {"to": "cpu:9"})
        assert answer.status == 409 and "cpu:9" in answer.body["message"]
        client.status(state_of("stays", "running"))
        (tmp_path / "go").touch()
        assert kernel.finish(sent).ok
