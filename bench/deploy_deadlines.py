"""Several deployed models on one slot, asked for more than it can do; and their weights loaded and evicted often.

What it can do is what 32 callers, each of whom waits for its answer, get out of it. Then calls come at random
(Poisson), whoever has been answered or not, at 0.7, 1, 1.5 and 3 times that rate, each with a deadline; beside it the
same calls to the same models deployed without one: first come, first served. Seen from the caller. Takes four minutes.
"""

from __future__ import annotations

import os
import random
import selectors
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import package_root, show_table, write_results

ROOT = package_root()

import numpy as np  # noqa: E402 - needs the path above
import psutil  # noqa: E402
from deploy import gpufit  # noqa: E402
from onnx import helper  # noqa: E402

from jupyter_gpufit.calls.client import DeployedModel, DeployedModels, _Connection  # noqa: E402
from jupyter_gpufit.deploy.instance import allow_many_files  # noqa: E402
from jupyter_gpufit.jobs.record import read_record  # noqa: E402
from jupyter_gpufit.jobs.store import find_job  # noqa: E402
from jupyter_gpufit.settings import load_settings  # noqa: E402
from tests.models.zoo import affine, save  # noqa: E402

DEADLINE = 0.2  # seconds
SECONDS = 6.0  # of calls at one rate
LOADS = (0.7, 1.0, 1.5, 3.0)
CALLERS = 32
CYCLES = 1000
ROWS = 16  # of a call whose run takes about as long as a load
SIDES = {"narrow": 512, "wide": 1024}
LAYERS = 8


def perceptron(path: Path, side: int) -> None:
    generator, nodes, constants = np.random.default_rng(0), [], {}
    for layer in range(LAYERS):
        constants[f"w{layer}"] = generator.standard_normal((side, side), np.float32) / np.float32(side**0.5)
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"h{layer + 1}"]))
    save(path, nodes, [("h0", ["batch", side])], [(f"h{LAYERS}", ["batch", side])], constants)


def deployed(name: str, paths: list[Path], *options: str) -> DeployedModels:
    print(gpufit("deploy", *map(str, paths), "--name", name, *options).strip())
    return DeployedModels(load_settings(), *find_job(load_settings(), name))


def inputs(model: DeployedModel) -> np.ndarray:
    shape = model.signature.inputs[0].shape
    assert shape is not None and isinstance(shape[1], int)
    return np.ones((1, shape[1]), np.float32)


def capacity(models: DeployedModels) -> float:
    """Calls a second of callers who wait for their answers, of all models alike."""
    ends, counts = time.monotonic() + SECONDS, [0] * CALLERS

    def ask(caller: int) -> None:
        which = random.Random(caller)
        while time.monotonic() < ends:
            model = which.choice(models)
            model(inputs(model))
            counts[caller] += 1

    callers = [threading.Thread(target=ask, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(counts) / SECONDS


@dataclass
class Arrivals:
    """One stream of calls, and what came of each."""

    came: int = 0
    refused: int = 0
    dropped: int = 0  # taken, and refused later
    late: int = 0
    met: dict[str, int] = field(default_factory=dict)  # by model
    took: list[float] = field(default_factory=list)  # seconds

    def figures(self) -> dict[str, Any]:
        taken = self.came - self.refused
        met = sum(self.met.values())
        return {
            "calls": self.came,
            "taken": taken,
            "met_of_taken": round(met / taken, 4) if taken else None,
            "late": self.late,
            "dropped": self.dropped,
            "goodput": round(met / self.came, 4),
            "met": self.met,
            "p99_ms": round(float(np.percentile(self.took, 99)) * 1e3, 1) if self.took else None,
        }


def arrive(models: DeployedModels, rate: float, *, deadline: bool) -> dict[str, Any]:
    """Calls at random, from one thread that waits for none of them."""
    chance, selector, found = random.Random(0), selectors.DefaultSelector(), Arrivals()
    found.met = {model.model: 0 for model in models}
    idle: dict[str, list[_Connection]] = {model.model: [] for model in models}
    given = {model.model: [inputs(model)] for model in models}
    waiting = 0
    begin = time.monotonic()
    due, end = begin, begin + SECONDS
    while due < end or waiting:
        now = time.monotonic()
        if due < end and now >= due:
            model = chance.choice(models)
            connection = idle[model.model].pop() if idle[model.model] else _Connection(model._address)
            connection.ask(given[model.model], model._number, now + DEADLINE if deadline else None)
            selector.register(connection._socket, selectors.EVENT_READ, (connection, model.model, now))
            found.came += 1
            waiting += 1
            due += chance.expovariate(rate)
        for key, _ in selector.select(max(0.0, due - time.monotonic()) if due < end else None):
            connection, name, since = key.data
            reply, took = connection.reply(), time.monotonic() - since
            selector.unregister(connection._socket)
            idle[name].append(connection)
            waiting -= 1
            if reply.late or reply.waiting:
                found.refused += not reply.taken
                found.dropped += reply.taken
                continue
            assert reply.outputs, reply
            found.took.append(took)
            found.met[name] += took <= DEADLINE
            found.late += took > DEADLINE
    for connections in idle.values():
        for connection in connections:
            connection.close()
    return found.figures()


def overload(folder: Path) -> dict[str, Any]:
    paths = []
    for name, side in SIDES.items():
        paths.append(folder / f"{name}.onnx")
        perceptron(paths[-1], side)
    results: dict[str, Any] = {"deadline_ms": DEADLINE * 1e3}
    # One after the other: both at once would share the processor.
    models = deployed("fifo", paths, "--waiting", "512")
    rate = capacity(models)
    results["capacity_per_second"] = round(rate, 1)
    for load in LOADS:
        results[f"{load}x, first in first out"] = arrive(models, rate * load, deadline=False)
        print(load, results[f"{load}x, first in first out"], flush=True)
    gpufit("stop", "fifo")
    models = deployed("edf", paths, "--waiting", "512", "--deadline", f"{DEADLINE * 1e3:.0f}ms")
    for load in LOADS:
        results[f"{load}x, deadlines"] = arrive(models, rate * load, deadline=True)
        print(load, results[f"{load}x, deadlines"], flush=True)
    gpufit("stop", "edf")
    return results


def cycles(folder: Path) -> dict[str, Any]:
    """Three models of which two have room, called in turn: each call loads one and evicts one."""
    paths = []
    for name, side in (("a", 1024), ("b", 1025), ("c", 1026)):
        paths.append(folder / f"{name}.onnx")
        affine(paths[-1], features=side, answers=side)
    models = deployed("cycles", paths, "--memory", "73MiB", "--deadline", "60s")
    worker = read_record(find_job(load_settings(), "cycles")[1]).worker
    assert worker is not None
    [instance] = psutil.Process(worker.pid).children()
    given = [inputs(model) for model in models]
    resident, began = [], time.monotonic()
    for number in range(2 * CYCLES + 1):  # the first thousand, in which a heap finds its size, and another one
        if number in (30, CYCLES, 2 * CYCLES):
            resident.append(instance.memory_info().rss >> 10)
        models[number % 3](given[number % 3])
    seconds = time.monotonic() - began
    gpufit("stop", "cycles")
    return {
        "cycles": CYCLES,
        "grown_KiB": resident[1] - resident[0],
        "grown_in_the_next_KiB": resident[2] - resident[1],
        "ms_each": round(seconds / (2 * CYCLES) * 1e3, 2),
    }


def ahead(folder: Path) -> dict[str, Any]:
    """Three models of which two have room, and a caller of each: while one runs, the next one is loaded."""
    paths = [folder / f"ahead_{name}.onnx" for name in "abc"]
    for path in paths:
        perceptron(path, 1024)
    models = deployed("ahead", paths, "--memory", "144MiB")
    given = inputs(models[0]).repeat(ROWS, 0)
    counts, ends = [0] * 3, time.monotonic() + SECONDS

    def ask(caller: int) -> None:
        while time.monotonic() < ends:
            models[caller](given)
            counts[caller] += 1

    callers = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    gpufit("stop", "ahead")
    return {"weights_MiB": 3 * [LAYERS * 4], "calls": counts, "ms_each": round(SECONDS / sum(counts) * 1e3, 2)}


def main() -> None:
    allow_many_files()  # each caller has a connection and its memory
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {
            "GPUFIT_DATA": f"{name}/data",
            "GPUFIT_LAB": f"{name}/lab",
            "GPUFIT_RUNTIME": f"{name}/run",
            "GPUFIT_DEVICES": "cpu:1x2GiB",
        }
        results: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
        results["load and evict"] = cycles(Path(name))
        results["loaded ahead"] = ahead(Path(name))
        results |= overload(Path(name))
        results["load_average_after"] = os.getloadavg()[0]
        show_table(["what", "figures"], list(results.items()))
        write_results("deploy_deadlines", results)


if __name__ == "__main__":
    main()
