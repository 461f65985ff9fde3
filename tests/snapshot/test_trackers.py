"""A run of an experiment tracker goes on under its id in the process that goes on, and has each of its steps."""

from __future__ import annotations

import glob
import sys
from ast import literal_eval
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_gpufit.snapshot.libraries import trackers
from tests.libraries import need
from tests.wandb_rows import rows_of

from .test_refusals import problems
from .test_restore import through
from .training import Trainings

# Two runs: that of wandb.log, and one beside it. They are left as a release leaves them. And one that has ended.
WANDB = """
import wandb
quiet = wandb.Settings(silent=True)
ended = wandb.init(project="p", mode="offline", config={"lr": 0.1}, settings=quiet)
ended.finish()
run = wandb.init(project="p", mode="offline", config={"lr": 0.1}, tags=["a"], settings=quiet)
beside = wandb.init(project="q", mode="offline", reinit="create_new", settings=quiet)
config, summary, log, named = wandb.config, run.summary, wandb.log, (run.id, beside.id)
for i in range(8):
    log({"loss": i / 2})
    beside.log({"other": i}, step=10 * i)
same = (run.id, beside.id) == named and wandb.run is run and run.config is config and run.summary is summary
config.update({"late": i})
found = dict(config.items()), run.step, run.tags, run.project, beside.project, dict(summary)["loss"]
found = *found, ended.id in (run.id, beside.id), ended.config["lr"], run.settings.silent
from jupyter_gpufit.snapshot.libraries import trackers
trackers.close()
config = summary = log = quiet = trackers = None
"""

# No variable leads to these runs.
MLFLOW = """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
mlflow.set_tracking_uri("file://" + os.getcwd() + "/runs")
mlflow.set_experiment("mine")
mlflow.start_run(run_name="outer"), mlflow.start_run(nested=True)
for i in range(8):
    mlflow.log_metric("loss", i / 2, step=i)
inner = mlflow.active_run()
mlflow.end_run()
outer = mlflow.active_run()
mlflow.log_param("late", i)
mlflow.end_run()
client = mlflow.MlflowClient()
seen = sorted(metric.step for metric in client.get_metric_history(inner.info.run_id, "loss"))
runs = client.search_runs([outer.info.experiment_id])
ended = sorted((run.info.status, str(run.data.params.get("late"))) for run in runs)
run = outer = inner = client = runs = None
"""


@pytest.mark.slow(15)
def test_runs_of_wandb_go_on_at_their_steps(trainings: Trainings, tmp_path: Path) -> None:
    need("wandb")
    (tmp_path / "whole").mkdir()
    whole = trainings.run(WANDB, directory=tmp_path / "whole").digests

    assert not trainings.run(WANDB, in_cell=True, at=4, more=3, save=tmp_path / "saved", directory=tmp_path).error
    ended = trainings.run(WANDB, of=tmp_path / "saved").digests

    assert ended["same"] == "True" and ended["found"] == whole["found"]
    rows = [rows_of(file) for file in sorted(glob.glob(f"{tmp_path}/wandb/offline-run-*/*.wandb"))]
    last: dict[str, list[int]] = {key: steps for row in rows for key, steps in row.items()}
    assert last == {"loss": [3, 4, 5, 6, 7], "other": [30, 40, 50, 60, 70]}


@pytest.mark.slow(10)
def test_runs_of_mlflow_go_on_and_have_twice_what_was_lost(trainings: Trainings, tmp_path: Path) -> None:
    need("mlflow")

    assert not trainings.run(MLFLOW, in_cell=True, at=4, more=3, save=tmp_path / "saved", directory=tmp_path).error
    ended = trainings.run(MLFLOW, of=tmp_path / "saved").digests

    times = Counter(int(step) for step in literal_eval(ended["seen"]))
    assert times == Counter([*range(8), 3, 4, 5])
    assert ended["ended"] == str([str(["'FINISHED'", "'7'"]), str(["'FINISHED'", "'None'"])])


@pytest.mark.parametrize(
    ("module", "name", "what"),
    [
        ("comet_ml.experiment", "CometExperiment", "an experiment of Comet"),
        ("neptune.metadata_containers.metadata_container", "MetadataContainer", "a run of Neptune's"),
        ("clearml.backend_interface.task.task", "Task", "a task of ClearML's"),
        ("aim.sdk.run", "BasicRun", "a run of Aim's"),
    ],
)
def test_the_handle_of_another_tracker_is_named(module: str, name: str, what: str) -> None:
    found = problems(
        f"Base = type({name!r}, (), {{'__module__': {module!r}}})\nclass Run(Base): pass\nmine = {{'log': Run()}}\n"
        "del Base, Run"
    )

    assert what in found["mine['log']"] and "no checkpoint can hold it" in found["mine['log']"].lower()


def test_that_autologging_does_not_go_on_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = ModuleType("mlflow.utils.autologging_utils")
    vars(utils)["AUTOLOGGING_INTEGRATIONS"] = {
        "mlflow": {},
        "sklearn": {"disable": True},
        "pytorch": {"disable": False},
    }
    monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", utils)

    [remark] = through("a = 1").remarks

    assert "MLflow's autologging (pytorch) does not go on" in remark


def test_no_tracker_is_imported_for_a_cell_without_one() -> None:
    before = set(sys.modules)

    through("a = 1")

    assert not {"wandb", "mlflow"} & (set(sys.modules) - before) and trackers.live() == []
