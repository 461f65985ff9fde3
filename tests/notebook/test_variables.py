"""What is said of a job's variables where there is nothing to bring, and how long their objects are kept."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import sys
import time
import weakref
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from jupyter_gpufit.errors import StorageError
from jupyter_gpufit.graph import ship
from jupyter_gpufit.jobs.events import Event, Note
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import LastCheckpoint, Record, take_lock, write_record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.notebook.variables import AllVariables, JobVariables, pack, packages_of, write_graph
from jupyter_gpufit.program.reading.cell import names_of
from jupyter_gpufit.settings import Settings
from tests.disks import fill, small_disk

SAVED = LastCheckpoint(step=7, time=1e9, bytes=100)


def test_wanted_again_although_nothing_is_kept(folder: Path) -> None:
    job = Job(id="abc234", name="bert", source="pass", created=time.time(), cwd="/")
    paths = create_job_files(Settings(data=f"{folder}/data"), job)
    shown: list[Event] = []
    variables = JobVariables(job, paths, {})
    variables.expect(shown.append)
    variables.look_on_disk(again=True)
    assert not shown  # they never were here: whoever follows the job says where they are
    variables.here = True
    variables.look_on_disk(again=True)
    assert isinstance(shown[0], Note) and "The variables of bert came into this notebook at its end" in shown[0].text


@pytest.mark.slow(1)
@pytest.mark.parametrize("asked", ["globals()[f'cancel_{what}']", "eval('cancel_' + what)", "own(what)", "open(what)"])
def test_of_a_function_that_may_read_any_name_all_that_can_travel_goes_along(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there
    shell: Any = InteractiveShell(user_ns={"cancel_fit": [7], "beside": os.scandir("/proc"), "globals": len})
    exec("def own(what): return exec(f'cancel_{what}')\n" + f"def asks(what): return {asked}", shell.user_ns)
    if "globals" in asked:
        del shell.user_ns["globals"]  # else it is the notebook's own

    shipment = pack(shell, names_of("asks('fit')"))

    assert ("cancel_fit" in shipment.names) is ("open" not in asked) and "beside" not in shipment.names


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(data=f"{folder}/data")


class Kept:
    """A notebook's variables, and the array that each of its jobs was given."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.all = AllVariables({})
        self._given: dict[str, weakref.ref[Any]] = {}

    def started(self, name: str) -> tuple[JobPaths, JobVariables]:
        """A job whose array nothing but the job leads to any more."""
        job = Job(id=name, name=name, source="pass", created=time.time(), cwd="/")
        paths = create_job_files(self._settings, job)
        array = np.zeros(3)
        self._given[name] = weakref.ref(array)
        variables = self.all.of(job, paths)
        variables.shipped(ship(["array"], {"array": array}))
        return paths, variables

    def left(self, name: str, state: State, checkpoint: LastCheckpoint | None = SAVED) -> JobPaths:
        """One that this notebook has followed until then."""
        paths, variables = self.started(name)
        write_record(paths, Record(state=state, since=0.0, checkpoint=checkpoint))
        variables.end()
        return paths

    @property
    def names(self) -> list[str]:
        self.all.let_go()
        gc.collect()
        return [name for name, array in self._given.items() if array() is not None]


def test_the_objects_of_the_newest_jobs_that_can_be_resumed_are_kept(settings: Settings) -> None:
    kept = Kept(settings)
    for number in range(4):
        kept.left(f"job{number}", "stopped")
    assert kept.names == ["job2", "job3"]


def test_the_objects_of_a_job_that_runs_are_kept_however_many_there_are(settings: Settings) -> None:
    kept = Kept(settings)
    locks = [take_lock(kept.started(f"job{number}")[0], "job") for number in range(4)]
    assert kept.names == ["job0", "job1", "job2", "job3"]
    for lock in locks:
        os.close(lock)


def test_the_objects_of_a_job_of_which_nothing_can_come_are_let_go(settings: Settings) -> None:
    kept = Kept(settings)
    cleaned = kept.left("cleaned", "stopped")
    resumed = kept.left("resumed", "stopped")
    awaited = kept.left("awaited", "stopped")
    assert kept.names == ["resumed", "awaited"]
    shutil.rmtree(cleaned.root)
    for elsewhere in (resumed, awaited):  # resumed in a terminal; the end of one has been taken by another notebook
        write_record(elsewhere, Record(state="done", since=0.0, checkpoint=SAVED))
    awaited.result.mkdir()
    assert kept.names == ["awaited"]
    shutil.rmtree(awaited.root)
    assert kept.names == []


def test_what_stands_aside_is_kept_for_the_newest_jobs_and_as_long_as_they_have_files(settings: Settings) -> None:
    kept = Kept(settings)
    started = [kept.started(f"job{number}") for number in range(3)]
    for paths, variables in started:
        variables._aside = {"net": variables}
        write_record(paths, Record(state="done", since=0.0))

    def aside() -> list[str]:
        kept.all.let_go()
        return [paths.root.name for paths, variables in started if variables._aside]

    assert aside() == ["job1", "job2"]
    shutil.rmtree(started[2][0].root)
    assert aside() == ["job1"]


def test_a_full_disk_is_a_sentence(settings: Settings) -> None:
    paths = create_job_files(settings, Job(id="j", name="j", source="", created=0.0, cwd="/"))
    with small_disk(paths.graph.parent, "64k") as disk:
        fill(disk)
        with pytest.raises(StorageError, match=r"graph.pkl cannot be written \(No space left on device\)"):
            write_graph(paths, ship([], {}))


def test_packages_of_a_cells_variables(tmp_path: Path) -> None:
    class Shell:
        user_ns: ClassVar[dict[str, Any]] = {}

    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    Shell.user_ns.update(model=model, path=tmp_path, own=[{"deep": model}], parse=ast.parse, unused=pytest, np=ast)

    names = names_of("import json\nfor one in own: parse(path); np.walk(one)")

    assert packages_of(cast(Any, Shell), names) >= {"torch", "pathlib", "ast", "json"}
    assert "pytest" not in packages_of(cast(Any, Shell), names)
