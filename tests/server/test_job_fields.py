"""What a job in training shows: steps, time left, loss, memory; and its curve in the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kernels import Kernel
from tests.server.running import Server

pytestmark = pytest.mark.slow

CELL = """%%gpufit train --name fields --memory 1GiB --detach
import os, time, torch
net = torch.nn.Linear(4, 1).to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.125)

def train(epochs):
    for epoch in range(epochs):
        for x in torch.utils.data.DataLoader(torch.ones(20, 4, device="cuda"), batch_size=2):
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.05)
            if os.path.exists({go!r}):
                return
train(1000)
"""


def test_a_training(server: Server, kernel: Kernel, tmp_path: Path) -> None:
    with server.client() as client:
        kernel.finish(kernel.send(CELL.format(go=str(tmp_path / "go"))))

        def shows_all(status: dict[str, Any]) -> bool:
            job: dict[str, Any] = status["jobs"][-1] if status["jobs"] else {"loss": None}
            return bool(job["loss"] and job["progress"]["total"] and job["progress"]["left"] and job["memory"])

        job = client.status(shows_all)["jobs"][-1]
        assert job["loss"]["name"] == "loss" and 0 <= job["loss"]["value"] < 10
        assert set(job["metrics"]) >= {"loss", "lr"}
        assert job["progress"]["total"] == pytest.approx(10_000, rel=0.01)
        assert 0 < job["progress"]["step"] < 10_000 and job["progress"]["left"] > 1
        assert 0 < job["memory"]["used"] <= job["memory"]["peak"]
        (tmp_path / "go").touch()
        client.status(lambda status: status["jobs"][-1]["state"] == "done")
    done = server.job("fields")
    assert done["progress"]["left"] is None and done["progress"]["step"] == done["step"] > 0
    entries = server.get(f"jobs/{done['id']}/journal")["entries"]
    points = [entry["event"] for entry in entries if entry["event"]["kind"] == "metrics"]
    assert points and all(set(point) == {"kind", "step", "values"} for point in points)
    assert points[-1]["values"]["lr"] == 0.125


BY_HAND = """%%gpufit train --name by-hand --memory 1GiB --detach
import os, time, torch
weight = torch.ones(4, requires_grad=True)
for i in range(1000):
    loss = (weight * torch.ones(8, 4)).square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
    for parameter in [weight]:
        time.sleep(0.02 * (not os.path.exists({go!r})))
"""


def test_a_training_that_writes_its_update_itself(server: Server, kernel: Kernel, tmp_path: Path) -> None:
    with server.client() as client:
        kernel.finish(kernel.send(BY_HAND.format(go=str(tmp_path / "go"))))

        def is_on_its_way(status: dict[str, Any]) -> bool:
            job: dict[str, Any] = status["jobs"][-1]
            return job["name"] == "by-hand" and bool(job["progress"]["total"] and job["progress"]["left"])

        progress = client.status(is_on_its_way)["jobs"][-1]["progress"]
        assert progress["total"] == 1000 and 0 < progress["step"] < 1000
        (tmp_path / "go").touch()
        client.status(lambda status: status["jobs"][-1]["state"] == "done")
    assert server.job("by-hand")["step"] == 1000
    entries = server.get(f"jobs/{server.job('by-hand')['id']}/journal")["entries"]
    steps = [entry["event"]["step"] for entry in entries if entry["event"]["kind"] == "metrics"]
    assert steps == sorted(steps) and steps[-1] > 0
