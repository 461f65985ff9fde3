"""What the panel costs a Jupyter server, beside jupyterlab-nvdashboard and jupyter-resource-usage; and click to effect.

Eight pretended GPUs, ten running jobs that write their state once a second. Each server runs alone; its CPU is what its
process took, less nothing. The peers are asked as their own pages ask: nvdashboard's utilisation and memory charts each
hold a WebSocket that is served ten times a second (its default), resource-usage is polled every five seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common import package_root, show_table, write_results

package_root()

import psutil  # noqa: E402 - needs the path above
import websocket  # noqa: E402

from jupyter_gpufit.job import Job, create_job_files  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402
from jupyter_gpufit.worker.live import Live, Loss, Memory, Progress  # noqa: E402
from jupyter_gpufit.worker.record import Record, take_lock, write_record  # noqa: E402
from tests.fake_nvml import FakeNvml, Gpu, Holder, build_library  # noqa: E402
from tests.kernels import environment, running_kernel  # noqa: E402
from tests.server.running import BASE, TOKEN, Client, Server, running_server  # noqa: E402

Look = Callable[[Server, threading.Event], None]  # what somebody does until told to stop

DEVICES, JOBS = 8, 10
SETTLE, WATCHED = 1.5, 20.0  # seconds
TURNS, TURN = 4, 4.0  # of requests; seconds of each
REQUESTS_EVERY = 0.02  # seconds between two of the other requests
CLICKS = 40
PEERS = ("jupyterlab-nvdashboard", "jupyter-resource-usage")
TARGETS = {"open, %": 1.0, "nobody looks, %": 0.1, "click to effect p95, s": 0.5}

# The pretended driver has neither NVLink nor PCIe counters; nvdashboard takes "not supported" for an answer.
NO_LINKS = """
import pynvml
def unsupported(*args): raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
pynvml.nvmlDeviceGetNvLinkVersion = pynvml.nvmlDeviceGetMaxPcieLinkGeneration = unsupported
"""


def peers(folder: Path) -> Path | None:
    """The peers, installed beside everything else; None where they cannot be had."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PEERS]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"without the peers, which cannot be installed: {done.stderr.strip()[-300:]}")
        return None
    return folder


@contextmanager
def jobs(settings: Settings) -> Iterator[None]:
    """Ten jobs that run, as far as their files tell: their locks are ours, their states are written each second."""
    found = [Job(id=f"job{n:03}", name=f"train-{n}", source="", created=float(n), cwd="/") for n in range(JOBS)]
    paths = [create_job_files(settings, job) for job in found]
    locks = [take_lock(one, "bench") for one in paths]
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.wait(1.0):
            step += 1
            for one in paths:
                write_record(one, running(step))

    for one in paths:
        write_record(one, running(0))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
        for lock in locks:
            os.close(lock)


def running(step: int) -> Record:
    live = Live(
        progress=Progress(step=step, per_second=1.0, total=10_000, left=float(10_000 - step)),
        loss=Loss(name="loss", value=1.0 / (step + 1)),
        metrics=("loss", "lr"),
        memory=Memory(used=1 << 30, peak=1 << 30),
    )
    return Record(state="running", since=time.time(), device="0", epoch=1, step=step, live=live)


# What somebody who looks does -----------------------------------------------------------------------------------------


def nobody(server: Server, stop: threading.Event) -> None:
    stop.wait()


def our_panel(server: Server, stop: threading.Event) -> None:
    listen(f"ws://127.0.0.1:{server.port}{BASE}jupyter-gpufit/api/events", stop)


def nvdashboard(server: Server, stop: threading.Event) -> None:
    charts = [
        threading.Thread(target=listen, args=(f"ws://127.0.0.1:{server.port}{BASE}nvdashboard/{chart}", stop, FAST))
        for chart in ("gpu_utilization", "gpu_usage")
    ]
    for chart in charts:
        chart.start()
    for chart in charts:
        chart.join()


FAST = {"updateFrequency": 100, "isPaused": False}


def resource_usage(server: Server, stop: threading.Event) -> None:
    while not stop.wait(5.0):
        assert ask(server, "api/metrics/v1") < 60


def listen(url: str, stop: threading.Event, first: object = None) -> None:
    connection = websocket.create_connection(url, header=[f"Authorization: token {TOKEN}"], timeout=5.0)
    try:
        if first is not None:
            connection.send(json.dumps(first))
        while not stop.is_set():
            connection.recv()
    finally:
        connection.close()


def ask(server: Server, path: str) -> float:
    """Seconds that a request takes."""
    start = time.perf_counter()
    answer = server.ask("GET", f"{BASE}{path}")
    assert answer.status == 200, answer
    return time.perf_counter() - start


# Cost -----------------------------------------------------------------------------------------------------------------


def cost(server: Server, look: Look) -> dict[str, float]:
    """CPU of the server in percent of a core while somebody looks; and how long other requests take, then and else.

    The requests are made in turns with and without somebody who looks: the machine's own mood changes by the minute.
    """
    process = psutil.Process(server.process.pid)
    with looking(server, look):
        before, start = process.cpu_times(), time.monotonic()
        time.sleep(WATCHED)
        after, seconds = process.cpu_times(), time.monotonic() - start
    alone, beside = [], []
    for _ in range(TURNS):
        alone += requests(server)
        with looking(server, look):
            beside += requests(server)
    busy = after.user + after.system - before.user - before.system
    return {
        "cpu, %": 100 * busy / seconds,
        "p50 alone, ms": 1e3 * statistics.median(alone),
        "p50, ms": 1e3 * statistics.median(beside),
        "p99 alone, ms": 1e3 * p(99, alone),
        "p99, ms": 1e3 * p(99, beside),
    }


@contextmanager
def looking(server: Server, look: Look) -> Iterator[None]:
    stop = threading.Event()
    looker = threading.Thread(target=look, args=(server, stop))
    looker.start()
    try:
        time.sleep(SETTLE)
        yield
    finally:
        stop.set()
        looker.join()


def requests(server: Server) -> list[float]:
    taken = []
    until = time.monotonic() + TURN
    while time.monotonic() < until:
        taken.append(ask(server, "api"))
        time.sleep(REQUESTS_EVERY)
    return taken


def p(percent: int, values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


# Click to effect ------------------------------------------------------------------------------------------------------

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
        answered, shown, last = [], [], 0.0
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
        stopped = stop(server, client, id)
        kernel.finish(sent)
    return {
        "answered p50, s": statistics.median(answered),
        "answered p95, s": p(95, answered),
        "effect p50, s": statistics.median(shown[1:]),  # the first starts the process that writes
        "effect p95, s": p(95, shown[1:]),
        "effect of the first, s": shown[0],
        "stop, s": stopped,
    }


def stop(server: Server, client: Client, id: str) -> float:
    """From a click on Stop until the panel shows that the job has stopped."""
    start = time.perf_counter()
    assert server.post(f"jobs/{id}/stop").status == 202
    client.status(lambda status: status["jobs"][-1]["state"] == "stopped")
    return time.perf_counter() - start


def main() -> None:
    with ExitStack() as stack:
        private = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fake = FakeNvml(private, build_library(private))
        fake.show(*(Gpu(utilisation=n * 10, processes=(Holder(pid=os.getpid()),)) for n in range(DEVICES)))
        home = private / "home"
        home.mkdir()
        settings = Settings(data=f"{private}/data")
        found = peers(private / "peers")
        ours = {name: value for name, value in fake.env.items() if name != "FAKE_NVML_LOG"}
        env = environment(home, GPUFIT_DATA=settings.data, GPUFIT_DEVICES="", GPUFIT_LAB=f"{private}/lab")
        env |= {name: ours[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")}
        stack.enter_context(jobs(settings))
        runs: list[tuple[str, str, Look]] = [
            ("no extension", "", nobody),
            ("ours, nobody looks", "jupyter_gpufit", nobody),
            ("ours, the panel open", "jupyter_gpufit", our_panel),
        ]
        if found is not None:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH", ""), str(found)]))
            runs += [
                ("jupyterlab-nvdashboard, two charts", "jupyterlab_nvdashboard", nvdashboard),
                ("jupyter-resource-usage", "jupyter_resource_usage", resource_usage),
            ]
        results: dict[str, Any] = {}
        for name, extension, look in runs:
            changes = NO_LINKS if "nvdashboard" in extension else ""
            with running_server(env, home, extension=extension, changes=changes) as server:
                results[name] = cost(server, look)
                print(f"{name}: {results[name]}", flush=True)
        clicked = clicks(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    heads = list(next(iter(results.values())))
    show_table(
        (f"{DEVICES} GPUs, {JOBS} jobs", *heads),
        [(name, *(f"{row[head]:.2f}" for head in heads)) for name, row in results.items()],
    )
    show_table(("in a blocking cell", "s"), [(name, f"{value:.3f}") for name, value in clicked.items()])
    write_results("panel", {"cost": results, "clicks": clicked, "targets": TARGETS})


if __name__ == "__main__":
    main()
