"""From a click to its effect, in the middle of a blocking cell, for panel.py: of a real training in a real kernel."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from common import p, package_root

package_root()

from tests.kernels import environment, running_kernel  # noqa: E402 - needs the path above
from tests.server.running import Client, Server, running_server  # noqa: E402

CLICKS, STOPS = 30, 6

CELL = """%%gpufit train --name clicked
import time, torch
net = torch.nn.Linear(256, 256).to("cuda")
while True:
    net(torch.ones(8, 256, device="cuda")).sum().backward()
    time.sleep(0.01)
"""


def clicks(home: Path) -> dict[str, float]:
    """From a click on Checkpoint, in the middle of a blocking cell, until the panel shows that it was made."""
    env = environment(home)
    with running_kernel(env, home) as kernel, running_server(env, home) as server, server.client() as client:
        sent = kernel.send(CELL)
        client.status(lambda status: any(job["state"] == "running" for job in status["jobs"]))
        id = server.get("status")["jobs"][-1]["id"]
        answered: list[float] = []
        shown: list[float] = []
        last = 0.0
        for _ in range(CLICKS):
            time.sleep(0.3 + 0.037 * len(shown) % 1.0)  # at every phase of what goes on once a second
            start = time.perf_counter()
            assert server.post(f"jobs/{id}/checkpoint").status == 202
            answered.append(time.perf_counter() - start)

            def is_new(status: dict[str, Any], last: float = last) -> bool:
                saved = status["jobs"][-1]["checkpoint"]
                return saved is not None and saved["time"] > last

            last = client.status(is_new)["jobs"][-1]["checkpoint"]["time"]
            shown.append(time.perf_counter() - start)
        stops = [stop(server, client, id)]
        kernel.finish(sent)
        for _ in range(STOPS - 1):
            sent = kernel.send(CELL)
            status = client.status(lambda status: status["jobs"][-1]["state"] == "running")
            stops.append(stop(server, client, status["jobs"][-1]["id"]))
            kernel.finish(sent)
    return {
        "answered p50, s": statistics.median(answered),
        "answered p95, s": p(95, answered),
        "effect p50, s": statistics.median(shown[1:]),  # the first starts the process that writes
        "effect p95, s": p(95, shown[1:]),
        "effect of the first, s": shown[0],
        "stop shown p95, s": p(95, [shown for shown, _ in stops]),
        "stopped p50, s": statistics.median([stopped for _, stopped in stops]),
        "stopped p95, s": p(95, [stopped for _, stopped in stops]),
    }


def stop(server: Server, client: Client, id: str) -> tuple[float, float]:
    """From a click on Stop until the panel shows that the job is being stopped, and that it has."""
    time.sleep(1.0)  # the cell is in its loop
    start = time.perf_counter()
    assert server.post(f"jobs/{id}/stop").status == 202

    def state(status: dict[str, Any]) -> str:
        return str(status["jobs"][-1]["state"])

    found = client.status(lambda status: bool(status["jobs"][-1]["under_way"]) or state(status) == "stopped")
    shown = time.perf_counter() - start
    if state(found) != "stopped":  # else nothing is news any more, and the next status comes after ten seconds
        client.status(lambda status: state(status) == "stopped")
    return shown, time.perf_counter() - start
