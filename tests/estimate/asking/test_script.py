"""`gpufit estimate script.py`, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import torch
import neighbour

assert __name__ == "__main__" and sys.argv == [__file__, "--width", "256"]
model = torch.nn.Linear(neighbour.WIDTH, 256).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = 32
while True:
    optimizer.zero_grad()
    model(torch.randn(batch, 256, device="cuda")).sum().backward()
    optimizer.step()
"""


def gpufit(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *words]
    env = os.environ | {"XDG_DATA_HOME": str(cwd), "GPUFIT_DEVICES": "cpu:2x4GiB"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=cwd, env=env, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text(SCRIPT)
    (tmp_path / "scripts" / "neighbour.py").write_text("WIDTH = 256\n")
    return tmp_path


def test_estimates_a_script_on_a_card_that_is_not_here(folder: Path) -> None:
    ran = gpufit("estimate", "scripts/train.py", "--on", "H200", "--json", "--", "--width", "256", cwd=folder)

    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["card"] == "NVIDIA H200"
    assert told["by_kind"]["parameters"] == 4 * (256 * 256 + 256)
    assert told["fit"] == "fits when idle"


def test_shows_bars_in_a_terminal(folder: Path) -> None:
    ran = gpufit("estimate", "scripts/train.py", "--", "--width", "256", cwd=folder)

    assert ran.returncode == 0, ran.stderr
    assert "▲ peak" in ran.stdout and "CPU slot" in ran.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "gpufit estimate train.py"),
        (["nowhere.py"], "nowhere.py cannot be read"),
        (["scripts/train.py", "--on", "Voodoo"], "NVIDIA H200"),
        (["scripts/train.py", "--sweep", "size=1,2"], "'size'"),
        (["scripts/train.py"], "AssertionError"),
    ],
)
def test_a_mistake_is_a_sentence(folder: Path, words: list[str], said: str) -> None:
    ran = gpufit("estimate", *words, cwd=folder)

    assert ran.returncode == 2
    assert said in ran.stderr
