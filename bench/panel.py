"""What the panel costs a Jupyter server, beside jupyterlab-nvdashboard and jupyter-resource-usage; and click to effect.

    python bench/panel.py             # about five minutes; --peers: those two as well, three minutes more

It says what it is at. Eight pretended GPUs, ten running jobs that write their state once a second, and one of them its
journal: a long one, whose page is open in one of the measurements. The peers are asked as their own pages ask:
nvdashboard's utilisation and memory charts each hold a WebSocket that is served ten times a second (its default),
resource-usage is polled every five seconds.

All servers run at the same time. Each one's CPU is what its process took while somebody looked. What other requests
take is measured in short turns, one of each server to a round, in another order each round: the machine's own mood
changes by the minute. "No extension" has two turns a round, and what they differ by is what this machine cannot tell
apart. Whoever looks, and whoever writes the jobs' states, is a process of its own: beside a thread that unpacks
messages, the clock would measure this program.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import package_root, show_table, write_results

package_root()

import psutil  # noqa: E402 - needs the path above
from lookers import BEFORE, SPAWN, Look, asking, looking, nobody, nvdashboard, our_panel, our_run_page, resource_usage  # noqa: E402

from jupyter_gpufit.jobs.events import DeviceMark, Metrics, ProgressMark, Text  # noqa: E402
from jupyter_gpufit.jobs.events import Event as Written  # noqa: E402
from jupyter_gpufit.jobs.job import Job  # noqa: E402
from jupyter_gpufit.jobs.journal import Journal  # noqa: E402
from jupyter_gpufit.jobs.live import Live, Loss, Memory, Progress  # noqa: E402
from jupyter_gpufit.jobs.paths import JobPaths  # noqa: E402
from jupyter_gpufit.jobs.record import Record, take_lock, write_record  # noqa: E402
from jupyter_gpufit.jobs.store import create_job_files  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402
from tests.fake_nvml import FakeNvml, Gpu, Holder, build_library  # noqa: E402
from tests.kernels import environment, running_kernel  # noqa: E402
from tests.server.running import Client, Server, running_server  # noqa: E402

DEVICES, JOBS = 8, 10
WATCHED = 20.0  # seconds
ROUNDS, TURN = 10, 400  # requests in one turn
REQUESTS_EVERY = 0.005  # seconds between two of the other requests
RESAMPLES = 1000
CLICKS, STOPS = 40, 10
WITHOUT, AGAIN = "no extension", "no extension, again"
PEERS = ("jupyterlab-nvdashboard", "jupyter-resource-usage")
JOURNAL = 64 << 20  # bytes
TARGETS = {"open, %": 1.0, "nobody looks, %": 0.1, "p99 more, ms": 0.3, "click to effect p95, s": 0.5}

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
    for one in paths:
        write_record(one, running(0))
    journal = Journal(paths[0].journal, JOURNAL)
    journal.append([event for step in range(BEFORE) for event in second(step)])
    journal.close()
    writer = SPAWN.Process(target=write, args=(paths,), daemon=True)
    writer.start()
    try:
        yield
    finally:
        writer.terminate()
        writer.join()
        for lock in locks:
            os.close(lock)


def write(paths: Sequence[JobPaths]) -> None:
    journal = Journal(paths[0].journal, JOURNAL)
    for step in itertools.count(BEFORE):
        time.sleep(1.0)
        journal.append(second(step))
        for one in paths:
            write_record(one, running(step))


def second(step: int) -> list[Written]:
    """What a job writes into its journal in a second."""
    found: list[Written] = [ProgressMark(step, 1 << 30, 1 << 30), Text("stdout", f"step {step}\n")]
    found += [Metrics(step, {"loss": 1.0 / (step + 1), "lr": 1e-3}), DeviceMark(93, 310.0)] if step % 10 == 0 else []
    return found


def running(step: int) -> Record:
    live = Live(
        progress=Progress(step=step, per_second=1.0, total=10_000, left=float(10_000 - step)),
        loss=Loss(name="loss", value=1.0 / (step + 1)),
        metrics=("loss", "lr"),
        memory=Memory(used=1 << 30, peak=1 << 30),
    )
    return Record(state="running", since=time.time(), device="0", epoch=1, step=step, live=live)


# Cost -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """A server, and what somebody does with it."""

    server: Server
    look: Look


def cpu(seen: Seen) -> float:
    """What the server takes, in percent of a core, while somebody looks."""
    say(f"the server's CPU, for {WATCHED:.0f} s: {seen.look.__name__}")
    process = psutil.Process(seen.server.process.pid)
    with looking(seen.server.port, seen.look):
        before, start = process.cpu_times(), time.monotonic()
        time.sleep(WATCHED)
        after, seconds = process.cpu_times(), time.monotonic() - start
    return 100 * (after.user + after.system - before.user - before.system) / seconds


def latencies(all_seen: Mapping[str, Seen]) -> dict[str, list[list[float]]]:
    """Seconds that other requests take while somebody looks, round by round."""
    taken: dict[str, list[list[float]]] = {name: [] for name in all_seen}
    for number in range(ROUNDS):
        say(f"requests beside each of them: round {number + 1} of {ROUNDS}")
        names = list(all_seen)
        random.Random(number).shuffle(names)
        for name in names:
            seen = all_seen[name]
            with looking(seen.server.port, seen.look), asking(seen.server.port) as ask:
                taken[name].append([paced(ask) for _ in range(TURN)])
    return taken


def paced(ask: Callable[[str], float]) -> float:
    time.sleep(REQUESTS_EVERY)
    return ask("api")


def compared(taken: Sequence[list[float]], without: Sequence[list[float]]) -> dict[str, float]:
    """In ms; and how much longer than without, as an interval that nine of ten such measurements would give."""
    resampled = random.Random(0)
    more = []
    for _ in range(RESAMPLES):
        rounds = resampled.choices(range(len(taken)), k=len(taken))
        more.append(1e3 * (p(99, pooled(taken, rounds)) - p(99, pooled(without, rounds))))
    everything = pooled(taken, range(len(taken)))
    return {
        "p50, ms": 1e3 * statistics.median(everything),
        "p99, ms": 1e3 * p(99, everything),
        "p99 more, from": p(5, more),
        "p99 more, to": p(95, more),
    }


def pooled(turns: Sequence[list[float]], rounds: Iterable[int]) -> list[float]:
    return [one for number in rounds for one in turns[number]]


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
    say(f"{CLICKS} checkpoints and {STOPS} stops of a real training")
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


BEGAN = time.monotonic()


def say(words: str) -> None:
    print(f"{time.monotonic() - BEGAN:5.0f} s: {words}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="jupyterlab-nvdashboard and jupyter-resource-usage, too")
    with_peers = parser.parse_args().peers
    with ExitStack() as stack:
        private = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fake = FakeNvml(private, build_library(private))
        fake.show(*(Gpu(utilisation=n * 10, processes=(Holder(pid=os.getpid()),)) for n in range(DEVICES)))
        home = private / "home"
        home.mkdir()
        settings = Settings(data=f"{private}/data")
        found = peers(private / "peers") if with_peers else None
        ours = {name: value for name, value in fake.env.items() if name != "FAKE_NVML_LOG"}
        env = environment(home, GPUFIT_DATA=settings.data, GPUFIT_DEVICES="", GPUFIT_LAB=f"{private}/lab")
        env |= {name: ours[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")}
        stack.enter_context(jobs(settings))
        runs: list[tuple[str, str, Look]] = [
            (WITHOUT, "", nobody),
            ("ours, nobody looks", "jupyter_gpufit", nobody),
            ("ours, the panel open", "jupyter_gpufit", our_panel),
            ("ours, a run's page open, too", "jupyter_gpufit", our_run_page),
        ]
        if found is not None:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH", ""), str(found)]))
            runs += [
                ("jupyterlab-nvdashboard, two charts", "jupyterlab_nvdashboard", nvdashboard),
                ("jupyter-resource-usage", "jupyter_resource_usage", resource_usage),
            ]
        all_seen: dict[str, Seen] = {}
        for name, extension, look in runs:
            changes = NO_LINKS if "nvdashboard" in extension else ""
            server = stack.enter_context(running_server(env, home, extension=extension, changes=changes))
            all_seen[name] = Seen(server, look)
        shares = {name: cpu(seen) for name, seen in all_seen.items()}
        taken = latencies({**all_seen, AGAIN: all_seen[WITHOUT]})
        clicked = clicks(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    results = {
        name: {"cpu, %": shares.get(name, shares[WITHOUT]), **compared(turns, taken[WITHOUT])}
        for name, turns in taken.items()
    }
    heads = list(next(iter(results.values())))
    show_table(
        (f"{DEVICES} GPUs, {JOBS} jobs", *heads),
        [(name, *(f"{row[head]:.2f}" for head in heads)) for name, row in results.items()],
    )
    show_table(("in a blocking cell", "s"), [(name, f"{value:.3f}") for name, value in clicked.items()])
    write_results("panel", {"cost": results, "clicks": clicked, "targets": TARGETS})


if __name__ == "__main__":
    main()
