"""The server extension, in a real Jupyter server that serves under the base URL /a%40b/."""

from __future__ import annotations

import asyncio
import json
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.base.handlers import JupyterHandler

# Fixtures for this module only: registered as a plugin it would run every async test of the session on its own loop.
from pytest_jupyter.jupyter_server import *  # noqa: F403
from tornado.httpclient import HTTPClientError
from traitlets.config import Config

from jupyter_gpufit import __version__
from jupyter_gpufit.job import Job, create_job_files
from jupyter_gpufit.server import Readings
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.status import Status

GetStatus = Callable[..., Any]


class RefusingDevices(Authorizer):
    """Lets everybody do everything but see the devices."""

    def is_authorized(self, handler: JupyterHandler, user: object, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "gpufit")


@pytest.fixture(autouse=True)
def two_slots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUFIT_DEVICES", "cpu:2x4GiB")
    monkeypatch.setenv("GPUFIT_DATA", str(tmp_path / "gpufit"))


@pytest.fixture  # type: ignore[no-redef]  # in place of the one imported above
def jp_server_config() -> Config:
    return Config({"ServerApp": {"jpserver_extensions": {"jupyter_gpufit": True}}})


@pytest.fixture
def get_status(jp_asyncio_loop: AbstractEventLoop, jp_fetch: Callable[..., Any]) -> GetStatus:
    """Ask the running server for the status, with its token unless other headers are given."""

    def get(**options: Any) -> Any:
        async def fetch() -> Any:  # jp_fetch wants the running loop: outside, an earlier test may have left none
            return await jp_fetch("jupyter-gpufit", "api", "status", **options)

        return json.loads(jp_asyncio_loop.run_until_complete(fetch()).body)

    return get


def test_shows_the_devices(get_status: GetStatus) -> None:
    status = get_status()

    assert status["version"] == __version__
    assert [device["label"] for device in status["devices"]] == ["cpu:0", "cpu:1"]
    assert {device["total"] for device in status["devices"]} == {4 << 30}
    assert status["problem"] == ""


def test_shows_my_jobs(get_status: GetStatus, tmp_path: Path) -> None:
    job = Job(id="abc123", name="digits", source="", created=0.0, cwd="/")
    create_job_files(Settings(data=str(tmp_path / "gpufit")), job)

    (shown,) = get_status()["jobs"]
    assert (shown["id"], shown["name"]) == ("abc123", "digits")


def test_refuses_without_a_token(get_status: GetStatus) -> None:
    with pytest.raises(HTTPClientError, match="403"):
        get_status(headers={"Authorization": ""})


class TestWithAnAuthorizer:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.ServerApp.authorizer_class = RefusingDevices
        return jp_server_config

    def test_refuses_whom_it_refuses(self, get_status: GetStatus) -> None:
        with pytest.raises(HTTPClientError, match="403"):
            get_status()


def test_a_setting_that_cannot_be_read_is_told(get_status: GetStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFIT_DEVICES", "cpu:many")

    status = get_status()

    assert "GPUFIT_DEVICES" in status["problem"]
    assert status["devices"] == []


def reading(number: int) -> Status:
    return Status((), (), "", time=number)


def test_one_reading_serves_every_client() -> None:
    numbers = iter(range(3))

    async def ask() -> list[Status]:
        readings = Readings(lambda: reading(next(numbers)), fresh=3600.0)
        return [*await asyncio.gather(readings.latest(), readings.latest()), await readings.latest()]

    assert asyncio.run(ask()) == [reading(0)] * 3


def test_reads_again_when_the_reading_is_old() -> None:
    numbers = iter(range(2))

    async def ask() -> list[Status]:
        readings = Readings(lambda: reading(next(numbers)), fresh=-1.0)
        return [await readings.latest(), await readings.latest()]

    assert asyncio.run(ask()) == [reading(0), reading(1)]


def test_a_driver_that_hangs_is_told_and_keeps_one_thread() -> None:
    numbers, answers = iter(range(3)), threading.Event()

    def read() -> Status:
        number = next(numbers)
        answers.wait()
        return reading(number)

    async def ask() -> list[Status]:
        readings = Readings(read, fresh=3600.0, patience=0.05)
        early = [await readings.latest(), await readings.latest()]
        answers.set()
        while (late := await readings.latest()).problem:
            pass
        return [*early, late]

    *early, late = asyncio.run(ask())
    assert all("have not answered" in status.problem for status in early)
    assert late == reading(0)


def test_an_unexpected_failure_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Status:
        raise RuntimeError("out of paper")

    assert "out of paper" in asyncio.run(Readings(read).latest()).problem
    assert "out of paper" in caplog.text
