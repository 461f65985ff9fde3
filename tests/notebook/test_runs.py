"""Tables of runs, for a notebook."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jupyter_gpufit.actions.status import JobView
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.jobs.events import Metrics, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.live import Loss, Memory
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.notebook.runs import numbers, runs
from jupyter_gpufit.settings import Settings

LOSS, MEMORY = Loss(name="loss", value=0.5), Memory(used=1, peak=2)
JOBS = [
    JobView("a", "bert", "queued", "", 9.0, 9.0, None, "", 0, 0, "/n.ipynb"),
    JobView("b", "bert", "running", "", 100.0, 50.0, 7, "1", 1, 5, "/n.ipynb", 60.0, 40.0, loss=LOSS, memory=MEMORY),
]


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="j", source="", created=0.0, cwd="/"))


def test_a_row_for_each_run() -> None:
    found = runs(JOBS, 110.0)
    assert list(found.index) == ["a", "b"] and found["began"].isna().tolist() == [True, False]
    assert found["ran"].dt.total_seconds().tolist() == [0.0, 50.0] and found["peak_bytes"].tolist()[1] == 2
    assert found["loss"].tolist()[1] == 0.5 and found["state"].tolist() == ["queued", "running"]
    assert runs([], 0.0).empty


def test_the_numbers_of_a_run_over_its_steps(paths: JobPaths) -> None:
    journal = Journal(paths.journal, 1 << 20)
    journal.append(
        [Metrics(1, {"loss": 3.0}), Text("stdout", "x"), Metrics(2, {"loss": 2.0}), Metrics(4, {"loss": 1.0})]
    )
    journal.append([Metrics(3, {"loss": None, "acc": 0.5})])  # it was killed, and went on from its second step
    journal.close()
    found = numbers(paths)
    assert list(found.index) == [1, 2, 3] and found.index.name == "step"
    assert found["loss"].dropna().tolist() == [3.0, 2.0] and found["acc"].tolist()[-1] == 0.5
    assert str(found["time"].dtype).startswith("datetime64")


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, paths: JobPaths) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadOption, match="pip install pandas"):
        runs(JOBS, 0.0)
    with pytest.raises(BadOption, match="pip install pandas"):
        numbers(paths)
