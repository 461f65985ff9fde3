"""The WebSocket, in a real Jupyter server with real kernels and workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from jupyter_gpufit.jobs.events import Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from tests.kernels import Kernel, environment
from tests.server.running import PATIENCE, Client, Server, running_server

pytestmark = pytest.mark.slow


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


CELL = """%%gpufit train --name {name} --detach
import os, time
print('in the loop')
while not os.path.exists({go!r}): time.sleep(0.02)
print('end')
"""


def train(kernel: Kernel, client: Client, name: str, go: Path) -> dict[str, Any]:
    """Start a cell that goes on until told; the job, when it runs."""
    kernel.finish(kernel.send(CELL.format(name=name, go=str(go))))
    status = client.status(lambda status: state_of(status, name) == "running")
    found: dict[str, Any] = [job for job in status["jobs"] if job["name"] == name][-1]
    return found


def state_of(status: dict[str, Any], name: str) -> str:
    found: list[str] = [job["state"] for job in status["jobs"] if job["name"] == name]
    return found[-1] if found else ""


def has_text(words: str) -> Any:
    return lambda event: event["kind"] == "text" and words in event["text"]


@pytest.mark.slow(10)
def test_a_status_comes_at_once_and_whenever_something_changes(client: Client, kernel: Kernel, tmp_path: Path) -> None:
    assert client.status()["problem"] == ""
    train(kernel, client, "changing", tmp_path / "go")
    assert [claim["name"] for claim in client.heard[-1]["status"]["claims"]] == ["changing"]
    (tmp_path / "go").touch()
    client.status(lambda status: state_of(status, "changing") == "done" and not status["claims"])


def test_a_journal_as_it_grows_and_its_end(client: Client, kernel: Kernel, tmp_path: Path) -> None:
    id = train(kernel, client, "told", tmp_path / "go")["id"]
    client.send({"follow": {"job": id, "after": 0}})
    client.entries(has_text("in the loop"))
    (tmp_path / "go").touch()
    client.until(lambda message: message["type"] == "entries" and message["ended"])
    told = [entry for message in client.heard if message["type"] == "entries" for entry in message["entries"]]
    assert [entry["number"] for entry in told] == list(range(1, len(told) + 1))
    texts = [entry["event"]["text"] for entry in told if entry["event"]["kind"] == "text"]
    assert "".join(texts) == "in the loop\nend\n"


def test_the_death_of_a_worker_ends_its_journal(client: Client, kernel: Kernel, tmp_path: Path) -> None:
    job = train(kernel, client, "killed", tmp_path / "go")
    client.send({"follow": {"job": job["id"], "after": -1000}})
    client.entries(has_text("in the loop"))
    os.kill(job["pid"], signal.SIGKILL)
    client.until(lambda message: message["type"] == "entries" and message["ended"])
    client.status(lambda status: state_of(status, "killed") == "lost")


def test_who_follows_no_more_hears_no_more(client: Client, kernel: Kernel, tmp_path: Path) -> None:
    id = train(kernel, client, "left", tmp_path / "go")["id"]
    client.send({"follow": {"job": id, "after": 0}})
    client.entries(has_text("in the loop"))
    client.send({"unfollow": id})
    client.send({"follow": {"job": "nobody", "after": 0}})  # answered in its turn: what came before is done
    client.until(lambda message: message["type"] == "problem")
    (tmp_path / "go").touch()
    client.status(lambda status: state_of(status, "left") == "done")
    assert not any(
        entry["event"].get("text") == "end\n" for message in client.heard for entry in message.get("entries", ())
    )


def test_what_an_action_does_shows_to_all(server: Server, client: Client, kernel: Kernel, tmp_path: Path) -> None:
    id = train(kernel, client, "stopped", tmp_path / "never")["id"]
    with server.client() as other:
        assert server.post(f"jobs/{id}/stop").status == 202
        for one in (client, other):
            one.status(lambda status: state_of(status, "stopped") == "stopped")


STUBBORN = """%%gpufit train --name stubborn --detach
import os, time
try:
    print('in the loop')
    while True: time.sleep(0.02)
except KeyboardInterrupt:
    while not os.path.exists({go!r}): time.sleep(0.02)
    raise
"""


def test_a_stop_shows_before_it_has_an_effect(server: Server, client: Client, kernel: Kernel, tmp_path: Path) -> None:
    kernel.finish(kernel.send(STUBBORN.format(go=str(tmp_path / "go"))))
    status = client.status(lambda status: state_of(status, "stubborn") == "running")
    assert under_way(status, "stubborn") == []
    id = status["jobs"][-1]["id"]
    client.send({"follow": {"job": id, "after": 0}})
    client.entries(has_text("in the loop"))
    with server.client() as other:
        assert server.post(f"jobs/{id}/stop").status == 202
        for one in (client, other):
            one.status(lambda status: under_way(status, "stubborn") == ["stop"])
        (tmp_path / "go").touch()
        for one in (client, other):
            last = one.status(lambda status: under_way(status, "stubborn") == [])
            assert state_of(last, "stubborn") == "stopped"


def under_way(status: dict[str, Any], name: str) -> list[str]:
    found: list[list[str]] = [job["under_way"] for job in status["jobs"] if job["name"] == name]
    return found[-1]


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "[]",
        "{}",
        '{"follow": "x"}',
        '{"follow": {"job": 3}}',
        '{"follow": {"job": "x", "after": "y"}}',
        '{"follow": {"job": "x", "after": true}}',
        '{"unfollow": null}',
        "[" * 4000,
        "x" * 10_000,
    ],
)
def test_what_makes_no_sense_is_answered(client: Client, message: str) -> None:
    client.send(message)
    assert client.until(lambda message: message["type"] == "problem")["message"]


def test_at_most_so_many_journals(client: Client, home: Path, server: Server) -> None:
    settings = Settings(data=f"{home}/.local/share/gpufit")
    ids = [f"many{number}" for number in range(17)]
    for id in ids:
        create_job_files(settings, Job(id=id, name=id, source="", created=0.0, cwd="/"))
        client.send({"follow": {"job": id}})
    assert "At most 16" in client.until(lambda message: message["type"] == "problem")["message"]


def test_a_page_of_another_site_is_refused(server: Server) -> None:
    """Its browser sends the user's cookies along."""
    cookies, _ = server.sign_in()
    with server.client(cookies=cookies, origin=f"http://127.0.0.1:{server.port}") as ours:
        assert ours.status()["problem"] == ""
    for origin in ("http://elsewhere.example", "null"):
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            with server.client(cookies=cookies, origin=origin):
                pass
        assert refused.value.status_code == 403


@pytest.mark.slow(10)
def test_a_client_that_takes_nothing_is_disconnected_and_costs_no_memory(tmp_path: Path) -> None:
    env = environment(tmp_path)
    settings = Settings(data=f"{tmp_path}/.local/share/gpufit")
    paths = create_job_files(settings, Job(id="long", name="long", source="", created=0.0, cwd="/"))
    journal = Journal(paths.journal, 1 << 30)
    journal.append([Text("stdout", "x" * 100_000)] * 500)  # 50 MB: more than the network takes without a reader
    journal.close()
    changes = "from jupyter_gpufit.server import events; events.PATIENCE = 0.5"
    with running_server(env, tmp_path, changes=changes) as server:
        before = server.memory()
        with server.client() as client:
            client.status()
            client.send({"follow": {"job": "long"}})
            server.until_logged("took nothing")
            assert server.memory() - before < 40 << 20
            assert server.status()["problem"] == ""
        with server.client() as client:  # whoever reads gets it all
            client.send({"follow": {"job": "long", "after": -30}})
            client.until(lambda message: message["type"] == "entries" and message["ended"])
            assert sum(len(message.get("entries", ())) for message in client.heard) == 30


def test_statuses_are_such_as_browsers_read(client: Client) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(json.dumps(client.status()), parse_constant=refuse)


@pytest.mark.slow(12)
def test_a_server_ends_while_it_reads(tmp_path: Path) -> None:
    """A driver that hangs must not keep it: Python waits at its exit for every thread that is no daemon."""
    changes = (
        "import logging, time\nfrom jupyter_gpufit.actions.status import StatusReader\n"
        "StatusReader.read = lambda *_: (logging.warning('it reads'), time.sleep(3600))\n"
    )
    with running_server(environment(tmp_path), tmp_path, changes=changes) as server:
        with server.client():
            server.until_logged("it reads")
            server.process.terminate()
            server.process.wait(PATIENCE)
