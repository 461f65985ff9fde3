"""A run of Weights & Biases that an earlier cell began: the training logs to it, and the notebook still has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel
from tests.libraries import need
from tests.wandb_rows import rows_of

pytestmark = pytest.mark.slow(10)

SETUP = """
import os, time, torch, wandb
run = wandb.init(project="p", mode={mode!r}, config={{"lr": 0.1, "steps": 6}}, settings=wandb.Settings(silent=True))
net = torch.nn.Linear(2, 2).to("cuda"); opt = torch.optim.SGD(net.parameters(), lr=wandb.config.lr)
"""
CELL = """
wandb.watch(net)
for step in range(run.config.steps):
    loss = net(torch.ones(1, 2, device="cuda")).sum()
    opt.zero_grad(); loss.backward(); opt.step()
    wandb.log({{"loss": loss.item(), "other": step}}); print("step", step)
    while step == 2 and not os.path.exists({hold!r}): time.sleep(0.02)
seen = wandb.run.id, wandb.run is run, wandb.config["lr"]
"""


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("offline", ""),
        pytest.param("disabled", "", marks=pytest.mark.soak),  # below it is released, in every run
        ("offline", "--gpus 2"),
    ],
)
def test_the_training_logs_to_the_notebooks_run(kernel: Kernel, home: Path, mode: str, options: str) -> None:
    need("wandb")
    kernel.check(SETUP.format(mode=mode))

    said = kernel.check(f"%%gpufit train {options}\n" + CELL.format(hold="/"))

    assert "step 5" in said.stdout and "cell failed" not in said.shown, "the trial run has one that does nothing"
    assert kernel.check("print(seen == (run.id, True, 0.1), wandb.run is run)").stdout == "True True\n"
    kernel.check("wandb.log({'loss': 7.0, 'other': 99}); wandb.finish()")
    steps = [*range(7)]
    assert rows(kernel, home) == ([{"loss": steps, "other": steps}] if mode == "offline" else [])


def rows(kernel: Kernel, home: Path) -> list[dict[str, list[int]]]:
    name = kernel.check("print(run.id)").stdout.strip()
    return [rows_of(str(file)) for file in home.rglob(f"*{name}.wandb")]


@pytest.mark.usefixtures("no_worker_outlives_its_test")
@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_a_training_that_was_released_goes_on_with_it(
    kernel: Kernel, second_kernel: Kernel, home: Path, mode: str
) -> None:
    need("wandb")
    hold = home / f"go on {mode}"
    kernel.check(SETUP.format(mode=mode))
    sent = kernel.send(f"%%gpufit train --name {mode}-job\n" + CELL.format(hold=str(hold)))
    kernel.until(sent, "step 2")
    second_kernel.check(f"%gpufit release {mode}-job")
    kernel.finish(sent)
    hold.touch()

    kernel.check(f"%gpufit resume {mode}-job")

    assert kernel.check("print(seen == (run.id, True, 0.1))").stdout == "True\n"
    kernel.check("wandb.finish()")
    assert rows(kernel, home) == ([{"loss": [*range(6)], "other": [*range(6)]}] if mode == "offline" else [])


@pytest.mark.slow(26)
def test_a_run_of_mlflow_has_what_the_training_logs_and_goes_on(kernel: Kernel, home: Path) -> None:
    need("mlflow")
    kernel.check(f"""
import mlflow, torch
mlflow.set_tracking_uri("sqlite:///{home}/runs.db"); mlflow.set_experiment("ours")
outer = mlflow.start_run(run_name="outer"); run = mlflow.start_run(run_name="inner", nested=True)
net = torch.nn.Linear(2, 2).to("cuda"); opt = torch.optim.SGD(net.parameters(), lr=0.1)
""")

    kernel.check("""%%gpufit train
for step in range(4):
    loss = net(torch.ones(1, 2, device="cuda")).sum()
    opt.zero_grad(); loss.backward(); opt.step()
    mlflow.log_metric("loss", loss.item(), step=step)
seen = mlflow.active_run().info.run_id, mlflow.get_experiment(mlflow.active_run().info.experiment_id).name
""")

    kernel.check("client = mlflow.MlflowClient(); ours = run.info.experiment_id")
    assert kernel.check("print(seen == (run.info.run_id, 'ours'), mlflow.active_run() is run)").stdout == "True True\n"
    told = "[one.step for one in client.get_metric_history(run.info.run_id, 'loss')], len(client.search_runs([ours]))"
    assert (
        kernel.check(f"print({told}, client.get_run(run.info.run_id).info.status)").stdout == "[0, 1, 2, 3] 2 RUNNING\n"
    )
