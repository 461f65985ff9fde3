"""The control socket against whatever comes to it: real sockets, a recorded worker."""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import UNIXSocketStream

from jupyter_gpufit.errors import PathTooLong, StorageError, Unreachable
from jupyter_gpufit.jobs import control
from jupyter_gpufit.jobs.client import Connection, ask
from jupyter_gpufit.jobs.control import Followers, serve
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import socket_path
from jupyter_gpufit.jobs.protocol import Answer, WorkerRequest, WorkerVerb
from jupyter_gpufit.jobs.record import Record
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.runtime import runtime_dir

JOB = Job(id="abc234", name="bert", source="", created=0.0, cwd="/")


@dataclass
class Recorded:
    """Writes down what it was asked."""

    asked: list[str] = field(default_factory=list)
    files: tuple[list[int], list[int]] | None = None
    unwritten: list[str] = field(default_factory=list)
    defects: list[Exception] = field(default_factory=list)
    breaks: bool = False

    def state(self) -> dict[str, Any]:
        return {"state": "running"}

    def interrupt(self) -> None:
        self.asked.append("interrupt")

    def end(self) -> None:
        self.asked.append("end")

    def result(self) -> tuple[list[int], list[int]] | None:
        return self.files

    def collected(self) -> None:
        self.asked.append("collected")

    async def outcome(self) -> dict[str, Any]:
        return {"state": "done", "unwritten": self.unwritten}

    async def ask(self, verb: WorkerVerb, to: str) -> Answer:
        self.asked.append(f"{verb} {to}".strip())
        if self.breaks:
            raise ZeroDivisionError
        return Answer(verb != "release", "what will happen, or why not")

    def answered(self) -> None: ...

    def defect(self, error: Exception) -> None:
        self.defects.append(error)


@asynccontextmanager
async def serving(path: Path, worker: Recorded, followers: Followers) -> AsyncIterator[Record]:
    async with anyio.create_task_group() as group:
        started = anyio.Event()
        group.start_soon(lambda: serve(path, worker, followers, started=started))
        await started.wait()
        yield Record(state="running", since=0.0, socket=str(path))
        group.cancel_scope.cancel()


def test_answers_each_verb(tmp_path: Path) -> None:
    async def run() -> None:
        worker = Recorded()
        async with serving(tmp_path / "s", worker, Followers()) as record:
            assert (await ask(JOB, record, "state")).data == {"state": "running"}
            assert (await ask(JOB, record, "interrupt")).ok
            assert (await ask(JOB, record, "end")).ok
            assert not (await ask(JOB, record, "collect")).ok
            assert (await ask(JOB, record, "checkpoint")).why == "what will happen, or why not"
            assert (await ask(JOB, record, "move", "cpu:1")).ok
            assert not (await ask(JOB, record, "release")).ok
        assert worker.asked == ["interrupt", "end", "checkpoint", "move cpu:1", "release"]
        assert not (tmp_path / "s").exists()

    anyio.run(run)


def test_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path / "s", Recorded(), Followers()):
            assert stat.filemode((tmp_path / "s").stat().st_mode) == "srw-------"

    anyio.run(run)


def test_hands_over_open_files(tmp_path: Path) -> None:
    async def run() -> None:
        fd = os.memfd_create("test")
        os.write(fd, b"the result")
        worker = Recorded(files=([fd], [1]))
        async with serving(tmp_path / "s", worker, Followers()) as record:
            async with await anyio.connect_unix(record.socket) as stream:
                result = await Connection(JOB, stream).collect()
        assert result is not None and result[1] == [1]
        assert os.pread(result[0][0], 100, 0) == b"the result"
        for received in (fd, *result[0]):
            os.close(received)

    anyio.run(run)


def test_knows_who_follows_until_they_go(tmp_path: Path) -> None:
    async def run() -> None:
        changed = anyio.Event()
        followers = Followers()
        async with serving(tmp_path / "s", Recorded(), followers) as record:
            async with await anyio.connect_unix(record.socket) as stream:
                assert (await Connection(JOB, stream).ask("follow")).ok
                assert (await Connection(JOB, stream).ask("follow")).ok
                assert followers.count == 1
                followers.on_change = changed.set
            await changed.wait()
            assert followers.count == 0

    anyio.run(run)


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b"{}\n",
        b'{"verb": "state"}\n',
        b'{"verb": "explode", "protocol": 1}\n',
        b'{"verb": "follow", "protocol": 99}\n',
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
        b'{"verb": ["state"], "protocol": 1}\n',
        b'{"verb": "state", "protocol": "1"}\n',
        b'{"verb": "move", "protocol": 1, "to": {"a": 1}}\n',
        b'{"verb": "state", "protocol": ' + b"9" * 5_000 + b"}\n",
    ],
)
def test_a_request_that_makes_no_sense_is_answered_and_the_next_one_is_heard(tmp_path: Path, line: bytes) -> None:
    async def run() -> None:
        async with serving(tmp_path / "s", Recorded(), Followers()) as record:
            async with await anyio.connect_unix(record.socket) as stream:
                await stream.send(line)
                answer = json.loads(await stream.receive())
                assert answer["ok"] is False and answer["why"]
            assert (await ask(JOB, record, "state")).ok

    anyio.run(run)


def test_what_breaks_for_one_client_breaks_for_nobody_else(tmp_path: Path) -> None:
    async def run() -> None:
        worker = Recorded(breaks=True)
        async with serving(tmp_path / "s", worker, Followers()) as record:
            with pytest.raises(Unreachable, match="closed the connection"):
                await ask(JOB, record, "checkpoint")
            assert (await ask(JOB, record, "state")).ok
        assert [type(defect) for defect in worker.defects] == [ZeroDivisionError]

    anyio.run(run)


def test_a_crowd_that_says_nothing_takes_no_more_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "FIRST_WORD", 0.5)

    async def run() -> None:
        async with serving(tmp_path / "s", Recorded(), Followers()) as record:
            crowd = [socket.socket(socket.AF_UNIX) for _ in range(control.MOST_CLIENTS + 20)]
            for one in crowd:
                one.connect(record.socket)
            for one in crowd:  # those beyond the share at once, the others after a while
                await anyio.wait_readable(one)
                assert one.recv(1) == b""
                one.close()
            assert (await ask(JOB, record, "state")).ok

    anyio.run(run)


@pytest.mark.parametrize("answer", [b"[" * 60_000 + b"\n", b"7\n", b'{"ok": true, "data": 3}\n', b"x" * (5 << 20)])
def test_an_answer_that_makes_no_sense_is_a_sentence(tmp_path: Path, answer: bytes) -> None:
    async def run() -> None:
        async def answering(client: Any) -> None:
            async with client:
                await client.receive()
                await client.send(answer)

        listener = await anyio.create_unix_listener(tmp_path / "s")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, answering)
            with pytest.raises(Unreachable, match="cannot be read"):
                await ask(JOB, Record(state="running", since=0.0, socket=str(tmp_path / "s")), "state")
            group.cancel_scope.cancel()

    anyio.run(run)


def test_an_endless_line_and_a_rude_end_stop_nobody_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path / "s", Recorded(), Followers()) as record:
            rude = socket.socket(socket.AF_UNIX)
            rude.connect(record.socket)
            rude.send(b'{"verb": "st')
            rude.close()
            async with await anyio.connect_unix(record.socket) as stream:
                with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                    while True:
                        await stream.send(b"x" * 65536)
            assert (await ask(JOB, record, "state")).ok

    anyio.run(run)


def test_a_front_that_comes_while_no_descriptor_is_free_is_heard_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path / "s", Recorded(), Followers()) as record:
            with socket.socket(socket.AF_UNIX) as front:
                with no_free_descriptor():
                    front.connect(record.socket)
                    await anyio.wait_all_tasks_blocked()  # it could not be let in
                front.send(WorkerRequest("state").encode())
                with anyio.fail_after(300):
                    await anyio.wait_readable(front)
                assert Answer.decode(front.recv(4096)).ok

    anyio.run(run)


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest_free:
        number = lowest_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(not hasattr(UNIXSocketStream, "from_socket"), reason="NOT TESTED: giving up, with this old anyio")
@pytest.mark.parametrize("waits", ["a front", "a worker"])
def test_giving_up_in_the_moment_in_which_an_answer_comes_breaks_nothing(waits: str) -> None:
    """As a cell does whose job has just been released."""
    printed: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: printed.append(context))
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with theirs:
            async with await UNIXSocketStream.from_socket(ours) as stream, anyio.create_task_group() as group:
                if waits == "a front":
                    group.start_soon(Connection(JOB, stream).outcome)
                    await anyio.to_thread.run_sync(theirs.recv, 1000)
                else:
                    group.start_soon(control._line, stream, math.inf)
                    await anyio.wait_all_tasks_blocked()
                theirs.send(b"{}")
                asyncio.get_running_loop().call_soon(group.cancel_scope.cancel)

    anyio.run(run)
    assert printed == []


def test_a_dead_socket_is_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    dead = Record(state="running", since=0.0, socket=str(tmp_path / "gone"))
    with pytest.raises(Unreachable, match="gpufit stop bert"):
        anyio.run(ask, JOB, dead, "state")
    with pytest.raises(Unreachable, match="not opened its socket"):
        anyio.run(ask, JOB, Record(state="starting", since=0.0), "state")


def test_a_path_too_long_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(PathTooLong, match="GPUFIT_RUNTIME"):
        socket_path(Settings(runtime=str(tmp_path / ("x" * 100))), "abc234")


def test_a_runtime_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "run"
    open_to_all.mkdir(mode=0o755)
    with pytest.raises(StorageError, match="only you can enter"):
        runtime_dir(Settings(runtime=str(open_to_all)))
