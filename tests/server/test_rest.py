"""The REST routes, in a real Jupyter server that serves under the base URL /a%40b/, with real kernels and workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.base.handlers import JupyterHandler

# Fixtures for this module only: registered as a plugin it would run every async test of the session on its own loop.
from pytest_jupyter.jupyter_server import *  # noqa: F403
from tornado.httpclient import HTTPClientError
from traitlets.config import Config

from jupyter_gpufit import __version__
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, write_record
from jupyter_gpufit.jobs.store import create_job_files, jobs_dir
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold, Request
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB
from tests.kernels import Kernel, environment
from tests.people import ADA, make_shared, need_root
from tests.server.running import BASE, PATIENCE, Server, running_server

# Each tick is announced, so that a test can wait for the cell to be in its loop instead of sleeping.
LOOP = "import time\nfor tick in range(600):\n    print('tick', tick)\n    time.sleep(0.1)\n"

pytestmark = pytest.mark.slow


def test_shows_the_devices(server: Server) -> None:
    status = server.status()
    assert status["version"] == __version__ and status["problem"] == ""
    assert [device["label"] for device in status["devices"]] == ["cpu:0", "cpu:1"]
    for device in status["devices"]:
        assert sum(part["bytes"] for part in device["parts"]) == device["total"] == 2 * GiB


def test_describes_itself(server: Server) -> None:
    description = server.get("openapi.json")
    assert description["openapi"] == "3.1.0" and "/jobs/{id}/{action}" in description["paths"]


@pytest.fixture(scope="module")
def cell(kernel: Kernel, server: Server) -> Iterator[str]:
    """A blocking cell in the middle of a training."""
    sent = kernel.send(f"%%gpufit train --name looping\n{LOOP}")
    kernel.until(sent, "tick 1")
    yield sent
    jobs = server.status()["jobs"]
    if ("looping", "running") in [(job["name"], job["state"]) for job in jobs]:  # nobody has stopped it
        kernel.interrupt()
        kernel.finish(sent)


@pytest.fixture
def training(cell: str) -> str:
    """The name of its job."""
    return "looping"


def test_a_running_job_and_what_can_be_done_with_it(server: Server, training: str) -> None:
    job = server.job(training)
    assert job["state"] == "running" and job["device"] in ("cpu:0", "cpu:1")
    assert (job["can"]["stop"], job["can"]["checkpoint"], job["can"]["resume"]) == ("", "", "It is running.")
    assert [target["ok"] for target in job["can"]["move"]].count(True) == 1
    [claim] = server.status()["claims"]
    assert claim["mine"] and claim["job"] == job["id"]


def test_the_journal_of_a_job(server: Server, training: str) -> None:
    id = server.job(training)["id"]
    first = server.get(f"jobs/{id}/journal?limit=2")
    assert [entry["number"] for entry in first["entries"]] == [1, 2] and not first["ended"]
    assert first["entries"][0]["event"]["kind"] == "state"
    rest = server.get(f"jobs/{id}/journal?after={first['next']}")
    assert rest["entries"][0]["number"] == 3
    assert server.get(f"jobs/{id}/journal?after=-1&limit=1")["entries"]


def test_ones_own_claim_is_released_and_not_asked_for(server: Server, training: str) -> None:
    [claim] = server.status()["claims"]
    refused = server.post(f"claims/{claim['id']}/ask")
    assert refused.status == 409 and "It is yours" in refused.body["message"]
    assert server.job(training)["state"] == "running"


def test_a_command_of_mine_is_ended(server: Server, home: Path) -> None:
    waiting = [sys.executable, "-m", "jupyter_gpufit", "run", "--memory", "1GiB", "--", "sleep", "1000"]
    with subprocess.Popen(waiting, env=environment(home), stderr=subprocess.DEVNULL) as run, server.client() as client:
        told = client.status(lambda status: any(claim["name"] == "sleep" for claim in status["claims"]))
        [claim] = [claim for claim in told["claims"] if claim["name"] == "sleep"]
        assert claim["mine"] and claim["label"] == "sleep 1000"

        assert server.post(f"claims/{claim['id']}/release").status == 202

        assert run.wait(PATIENCE) == 128 + signal.SIGTERM


def test_stop_in_the_middle_of_a_blocking_cell(server: Server, kernel: Kernel, cell: str, training: str) -> None:
    answer = server.post(f"jobs/{server.job(training)['id']}/stop")
    assert answer.status == 202 and "interrupted" in answer.body["said"]
    assert kernel.finish(cell).ename == "KeyboardInterrupt"
    job = server.job(training)
    assert 0 < job["ran"] <= job["since"] - job["began"] + 1 and job["began"] >= job["created"]
    again = server.post(f"jobs/{server.job(training)['id']}/stop", {})
    assert (again.status, again.body["message"]) == (409, "looping cannot be stopped now. It was stopped.")
    removed = server.post("jobs/remove", {"jobs": [job["id"]]})
    assert removed.status == 202 and job["id"] not in [one["id"] for one in server.status()["jobs"]]


def test_a_renamed_notebook_keeps_its_jobs(server: Server, home: Path) -> None:
    """By its kernel's number one knows it only for as long as that lives: these never had one."""
    settings = Settings(data=str(home / ".local/share/gpufit"))
    (home / "old").mkdir()
    for name, notebook in (("moved", "old/first.ipynb"), ("beside", "old/second.ipynb"), ("other", "older.ipynb")):
        (home / notebook).write_text("{}")
        given = Job(id=f"id-{name}", name=name, source="", created=0.0, cwd="/", notebook=str(home / notebook))
        write_record(create_job_files(settings, given), Record(state="done", since=0.0))
    assert server.job("moved")["notebook"].endswith("old/first.ipynb")

    for before, now in (("old/first.ipynb", "old/renamed.ipynb"), ("old", "new folder")):
        place = f"{BASE}api/contents/{quote(before)}"
        assert server.ask("PATCH", place, json.dumps({"path": now})).status == 200

    wanted = {"moved": "new folder/renamed.ipynb", "beside": "new folder/second.ipynb", "other": "older.ipynb"}
    with server.client() as client:
        client.status(lambda status: notebooks(status, home) == wanted)
    for name in wanted:
        shutil.rmtree(JobPaths(jobs_dir(settings) / f"id-{name}").root)


def notebooks(status: dict[str, Any], home: Path) -> dict[str, str]:
    """Of jobs that have one."""
    return {job["name"]: os.path.relpath(job["notebook"], home) for job in status["jobs"] if job["notebook"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "jobs/nope/journal", None, 404, "There is no job 'nope'"),
        ("POST", "jobs/nope/stop", None, 404, "There is no job 'nope'"),
        ("POST", "jobs/..%2f..%2fetc/stop", None, 404, "There is no job"),
        ("POST", "jobs/nope/fly", None, 404, "There is no action 'fly'"),
        ("POST", "claims/c.0.nope/ask", None, 404, "c.0.nope"),
        ("POST", "claims/c.0.nope/release", None, 404, "c.0.nope"),
        ("POST", "jobs/nope/stop", "[1", 422, "not JSON"),
        ("POST", "jobs/nope/move", '{"to": 3}', 422, "must be an object"),
        ("POST", "jobs/nope/move", "[]", 422, "must be an object"),
        ("POST", "jobs/nope/move", '{"to": "' + "x" * 5000 + '"}', 422, "too long"),
        ("POST", "jobs/nope/move", "[" * 4000, 422, "not JSON"),
        ("GET", "jobs/nope/journal?after=x", None, 422, "after is 'x'"),
        ("GET", "jobs/nope/journal?limit=0", None, 422, "limit is 0"),
        ("POST", "jobs/remove", '{"jobs": ["nope"]}', 404, "There is no job 'nope'"),
        ("POST", "jobs/remove", '{"jobs": 3}', 422, "must be an object"),
        ("PUT", "status", "{}", 405, "Method Not Allowed"),
        ("GET", "jobs/nope/stop", None, 405, "Method Not Allowed"),
    ],
)
def test_refusals_say_why(server: Server, method: str, path: str, body: str, status: int, words: str) -> None:
    answer = server.ask(method, path, body)
    assert answer.status == status and words in answer.body["message"], answer


# Who may --------------------------------------------------------------------------------------------------------------

ROUTES = [
    ("GET", "status"),
    ("GET", "openapi.json"),
    ("GET", "jobs/x/journal"),
    ("GET", "jobs/x/curves"),
    ("POST", "jobs/x/curves"),
    ("POST", "jobs/x/stop"),
    ("POST", "jobs/remove"),
    ("POST", "claims/x/ask"),
    ("POST", "claims/x/release"),
    ("GET", "events"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_without_a_token(server: Server, method: str, path: str) -> None:
    assert server.ask(method, path, headers={}).status == 403
    assert server.ask(method, path, headers={"Authorization": "token wrong"}).status == 403


def test_another_sites_form_does_nothing(server: Server) -> None:
    """It has the user's cookies and not what stands in them."""
    cookies, xsrf = server.sign_in()
    assert server.ask("GET", "status", headers={"Cookie": cookies}).status == 200
    refused = server.ask("POST", "jobs/x/stop", headers={"Cookie": cookies})
    assert refused.status == 403 and "_xsrf" in refused.body["message"]
    ours = server.ask("POST", "jobs/x/stop", headers={"Cookie": cookies, "X-XSRFToken": xsrf})
    assert ours.status == 404
    elsewhere = {"Cookie": cookies, "Origin": "http://elsewhere.example"}
    assert server.ask("GET", "status", headers=elsewhere).status == 404


class ReadOnly(Authorizer):
    """Lets everybody look, and nobody act."""

    def is_authorized(self, handler: JupyterHandler, user: object, action: str, resource: str) -> bool:
        return resource != "gpufit" or action == "read"


class RefusingDevices(Authorizer):
    """Lets everybody do everything but see the devices."""

    def is_authorized(self, handler: JupyterHandler, user: object, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "gpufit")


class TestWithAnAuthorizer:
    @pytest.fixture(params=[ReadOnly, RefusingDevices])
    def jp_server_config(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> Config:
        monkeypatch.setenv("GPUFIT_DEVICES", "cpu:2x4GiB")
        monkeypatch.setenv("GPUFIT_DATA", str(tmp_path / "gpufit"))
        monkeypatch.setenv("GPUFIT_LAB", str(tmp_path / "lab"))
        self.lets_read = request.param is ReadOnly
        extensions = {"jpserver_extensions": {"jupyter_gpufit": True}}
        return Config({"ServerApp": {**extensions, "authorizer_class": request.param}})

    def test_does_what_it_says(
        self, jp_asyncio_loop: AbstractEventLoop, jp_fetch: Callable[..., Any], jp_ws_fetch: Callable[..., Any]
    ) -> None:
        async def code(*path: str, **options: Any) -> int:
            try:
                return int((await jp_fetch("jupyter-gpufit", "api", *path, **options)).code)
            except HTTPClientError as refused:
                return refused.code

        async def socket() -> int:
            try:
                (await jp_ws_fetch("jupyter-gpufit", "api", "events")).close()
            except HTTPClientError as refused:
                return refused.code
            return 200

        async def ask() -> list[int]:
            return [
                await code("status"),
                await socket(),
                await code("jobs", "x", "stop", method="POST", body="{}"),
                await code("claims", "x", "ask", method="POST", body="{}"),
            ]

        found = jp_asyncio_loop.run_until_complete(ask())
        assert found == ([200, 200, 403, 403] if self.lets_read else [403, 403, 404, 404])


# Two users of one machine ---------------------------------------------------------------------------------------------


@pytest.fixture
def hers(folder: Path) -> Iterator[tuple[Path, str]]:
    """A lab, and Ada's claim in it."""
    need_root()
    make_shared(folder / "lab")
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(ADA)
            os.setuid(ADA)
            request = Request(job_id="herjob", name="hers", label="hers.ipynb", needed=GiB)
            held = publish(folder / "lab", request, Hold(devices=("cpu:0",), bytes=GiB, alone=False))
            os.write(done, held.id.encode())
            signal.pause()
        finally:
            os._exit(1)
    claim = os.read(ready, 100).decode()
    yield folder / "lab", claim
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(done)


def test_another_users_claim_is_seen_and_asked_for_and_nothing_else(hers: tuple[Path, str], tmp_path: Path) -> None:
    lab, claim = hers
    with running_server(environment(tmp_path, GPUFIT_LAB=str(lab)), tmp_path) as server:
        status = server.status()
        [shown] = status["claims"]
        assert (shown["id"], shown["mine"], shown["user"]) == (claim, False, f"uid {ADA}")
        assert [part["kind"] for part in status["devices"][0]["parts"]] == ["claim", "free"]
        for verb in ("checkpoint", "release", "move", "stop"):
            refused = server.post("jobs/herjob/" + verb)
            assert refused.status == 403 and "only uid" in refused.body["message"]
        assert server.ask("GET", "jobs/herjob/journal").status == 403
        assert server.post(f"claims/{claim}/release").status == 403
        asked = server.post(f"claims/{claim}/ask", {})
        assert asked.status == 202 and "is asked to release hers" in asked.body["said"]
        # A press while the first is still under way has the first's answer; one after it has its own.
        answers = (server.post(f"claims/{claim}/ask").body["said"] for _ in range(200))
        assert any("already" in answer for answer in answers)
        assert server.status()["claims"][0]["asked_by"] == ["root"]
