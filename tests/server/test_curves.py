"""What a job's numbers did, for a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.curves import MOST, Curves
from jupyter_gpufit.jobs.events import Event, Metrics, ProgressMark, StateChange, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.picked import pick
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.server import curves
from jupyter_gpufit.server.curves import CurveReader
from jupyter_gpufit.settings import Settings
from tests.server.running import Server


def job(data: Path, id: str = "j") -> JobPaths:
    return create_job_files(Settings(data=str(data)), Job(id=id, name=id, source="", created=0.0, cwd="/"))


def write(paths: JobPaths, *events: Event) -> None:
    journal = Journal(paths.journal, 1 << 24)
    journal.append(events)
    journal.close()


def point(step: int) -> Event:
    return Metrics(step, {"lr": 0.1, "loss": 1.0 / (1 + step), "acc": None})


def test_the_loss_and_the_memory_and_what_else_there_is(tmp_path: Path) -> None:
    paths = job(tmp_path)
    write(paths, Text("stdout", "x"), point(1), ProgressMark(1, 7, 9), point(3))
    found = CurveReader().read(paths, whole=True)
    assert found.names == ("lr", "loss", "acc") and not found.older
    assert [(curve.name, curve.points) for curve in found.curves] == [("loss", ((1.0, 0.5), (3.0, 0.25)))]
    assert [bytes for _, bytes in found.memory] == [7.0]


def test_what_is_added_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, reader = job(tmp_path), CurveReader()
    write(paths, *map(point, range(50)))
    reader.read(paths, whole=True)
    taken: list[Event] = []
    monkeypatch.setattr(Curves, "take", lambda _, event, when: taken.append(event))
    write(paths, point(50), point(51))
    for _ in range(3):
        reader.read(paths, whole=True)
    assert taken == [point(50), point(51)]


def test_a_long_run_whole_and_its_latest_part(tmp_path: Path) -> None:
    paths, reader = job(tmp_path), CurveReader()
    write(paths, *map(point, range(4000)))
    whole, latest = reader.read(paths, whole=True), reader.read(paths, whole=False)
    assert whole.older and latest.older
    for found, first in ((whole, 0.0), (latest, 3000.0)):
        points = found.curves[0].points
        assert points[0][0] == first and points[-1][0] == 3999.0 and len(points) <= MOST


def test_keeps_no_more_points_than_it_may_and_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = CurveReader()
    monkeypatch.setattr(curves, "MOST_KEPT", 20)
    for number in range(12):
        paths = job(tmp_path, f"j{number}")
        write(paths, point(number))
        assert [at for at, _ in reader.read(paths, whole=True).curves[0].points] == [number]
    assert 3 <= len(reader._known) <= 6  # of four points each
    assert not [one for one in Path("/proc/self/fd").iterdir() if str(tmp_path) in str(one.resolve())]


def test_for_a_large_picture_by_name_and_for_a_close_look_all_there_is(tmp_path: Path) -> None:
    paths, reader = job(tmp_path), CurveReader()
    write(paths, *map(point, range(6000)), StateChange("released"), point(6000))
    few = reader.read(paths, whole=True, names=["lr", "none"], most=1000)
    assert [curve.name for curve in few.curves] == ["lr"] and MOST < len(few.curves[0].points) <= 1000
    assert [one.step for one in few.breaks] == [5999.0] and few.clock[-1][0] == 6000.0
    close = curves.read_stretch(paths, ["loss"], 100, 300, 1000)
    assert [at for at, _ in close.curves[0].points] == list(range(100, 301))


def test_of_a_job_that_has_written_nothing(tmp_path: Path) -> None:
    found = CurveReader().read(job(tmp_path), whole=True)
    assert (found.names, found.curves, found.memory) == ((), (), ())


@pytest.mark.slow
def test_over_http_what_is_picked_is_kept(server: Server, home: Path) -> None:
    paths = job(home / ".local/share/gpufit", "drawn")
    write(paths, *map(point, range(5)))
    assert [curve["name"] for curve in server.get("jobs/drawn/curves")["curves"]] == ["loss"]
    answer = server.ask("POST", "jobs/drawn/curves?span=latest", json.dumps({"names": ["acc", "lr", "none"]}))
    assert answer.status == 200 and [curve["name"] for curve in answer.body["curves"]] == ["lr", "acc"]
    assert answer.body["curves"][1]["points"][0] == [0, None]
    [near] = server.get("jobs/drawn/curves?name=loss&start=1&stop=3&points=100")["curves"]
    assert [at for at, _ in near["points"]] == [1, 2, 3]
    facts = server.get("jobs/drawn/facts")
    assert (facts["cwd"], facts["checkpoints"], facts["claimed"]) == ("/", [], None)
    assert [curve["name"] for curve in server.get("jobs/drawn/curves")["curves"]] == ["lr", "acc"]
    for method, path, body, status in (
        ("GET", "jobs/nobody/curves", None, 404),
        ("GET", "jobs/drawn/curves?span=all", None, 422),
        ("POST", "jobs/drawn/curves", '{"names": "loss"}', 422),
        ("POST", "jobs/drawn/curves", "", 422),
    ):
        assert server.ask(method, path, body).status == status, (path, body)
    assert server.ask("POST", "jobs/drawn/curves", '{"names": []}', headers={}).status in (401, 403)
    pick(paths, ["loss"])
