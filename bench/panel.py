"""What the panel costs a Jupyter server, beside jupyterlab-nvdashboard and jupyter-resource-usage; and click to effect.

    python bench/panel.py             # six minutes; --peers: those two as well, four minutes more
    nice -n -5 python bench/panel.py  # where others compute, too

It says what it is at. Eight pretended GPUs, ten running jobs that write their state once a second, and one of them its
journal: a long one, whose page is open in one of the measurements. The peers are asked as their own pages ask:
nvdashboard's utilisation and memory charts each hold a WebSocket that is served ten times a second (its default),
resource-usage is polled every five seconds.

All servers run at the same time, each with whoever looks at it. Each one's CPU is what its process took meanwhile.
Other requests go to all of them in turn, one to each and in another order each time, so that whatever else the machine
does meets them alike. A round has a thousand such turns, and a p99 of each server; what is told is the median, over all
rounds, of how much that is more than the p99 of the server without the extension in the same round, and the range in
which nine of ten such measurements would find it. "No extension" has two servers: what they differ by is what this
machine cannot tell apart. Whoever looks, and whoever writes the jobs' states, is a process of its own: beside a thread
that unpacks messages, the clock would measure this program.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from common import p, package_root, show_table, write_results
from panel_clicks import CLICKS, STOPS, clicks
from panel_jobs import JOBS, jobs
from panel_lookers import Look, asking, looking, nobody, nvdashboard, our_panel, our_run_page, resource_usage

package_root()

from jupyter_gpufit.settings import Settings  # noqa: E402 - needs the path above
from tests.fake_nvml import FakeNvml, Gpu, Holder, build_library  # noqa: E402
from tests.kernels import environment  # noqa: E402
from tests.server.running import Server, running_server  # noqa: E402

DEVICES = 8
WATCHED = 20.0  # seconds
ROUNDS, TURNS = 15, 1000
REQUESTS_EVERY = 0.001  # seconds between two of the other requests
RESAMPLES = 1000
WITHOUT, AGAIN = "no extension", "no extension, again"
PEERS = ("jupyterlab-nvdashboard", "jupyter-resource-usage")
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


# Cost -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """A server, and what somebody does with it."""

    server: Server
    look: Look


@contextmanager
def looked_at(all_seen: Mapping[str, Seen]) -> Iterator[None]:
    with ExitStack() as stack:
        for seen in all_seen.values():
            stack.enter_context(looking(seen.server.port, seen.look))
        yield


def cpu(all_seen: Mapping[str, Seen]) -> dict[str, float]:
    """What each server takes, in percent of a core."""
    say(f"the servers' CPU, for {WATCHED:.0f} s")
    before, start = {name: taken_by(seen) for name, seen in all_seen.items()}, time.monotonic()
    time.sleep(WATCHED)
    after, seconds = {name: taken_by(seen) for name, seen in all_seen.items()}, time.monotonic() - start
    return {name: 100 * (after[name] - before[name]) / seconds for name in all_seen}


def taken_by(seen: Seen) -> float:
    """By the kernel's clock of that process: ticks of 10 ms are too coarse for what it takes in seconds."""
    return time.clock_gettime(~seen.server.process.pid << 3 | 2)  # as clock_getcpuclockid() names it


def latencies(all_seen: Mapping[str, Seen]) -> dict[str, list[list[float]]]:
    """Seconds that other requests take, round by round."""
    taken: dict[str, list[list[float]]] = {name: [] for name in all_seen}
    order, names = random.Random(0), list(all_seen)
    with ExitStack() as stack:
        asks = {name: stack.enter_context(asking(seen.server.port)) for name, seen in all_seen.items()}
        for number in range(ROUNDS):
            say(f"requests to all of them: round {number + 1} of {ROUNDS}")
            for name in names:
                taken[name].append([])
            for _ in range(TURNS):
                order.shuffle(names)
                for name in names:
                    time.sleep(REQUESTS_EVERY)
                    taken[name][-1].append(asks[name]("api"))
    return taken


def compared(taken: Sequence[list[float]], without: Sequence[list[float]]) -> dict[str, float]:
    """In ms; and how much longer than without, as a range that nine of ten such measurements would give."""
    more = [1e3 * (p(99, one) - p(99, other)) for one, other in zip(taken, without, strict=True)]
    resampled = random.Random(0)
    medians = [statistics.median(resampled.choices(more, k=len(more))) for _ in range(RESAMPLES)]
    return {
        "p50, ms": 1e3 * statistics.median(one for turns in taken for one in turns),
        "p99, ms": 1e3 * statistics.median(p(99, turns) for turns in taken),
        "p99 more": statistics.median(more),
        "from": p(5, medians),
        "to": p(95, medians),
    }


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
            (AGAIN, "", nobody),  # of its own: one that is asked twice as often is the quicker for it
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
        with looked_at(all_seen):
            shares = cpu(all_seen)
            taken = latencies(all_seen)
        say(f"{CLICKS} checkpoints and {STOPS} stops of a real training")
        clicked = clicks(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    results = {name: {"cpu, %": shares[name], **compared(turns, taken[WITHOUT])} for name, turns in taken.items()}
    heads = list(next(iter(results.values())))
    show_table(
        (f"{DEVICES} GPUs, {JOBS} jobs", *heads),
        [(name, *(f"{row[head]:.2f}" for head in heads)) for name, row in results.items()],
    )
    show_table(("in a blocking cell", "s"), [(name, f"{value:.3f}") for name, value in clicked.items()])
    write_results("panel", {"cost": results, "clicks": clicked, "targets": TARGETS})


if __name__ == "__main__":
    main()
