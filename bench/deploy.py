"""A deployed model beside ONNX Runtime in the caller's own process, and beside a bare FastAPI server.

The latency of one caller, calls in turn with plain ONNX Runtime so that both meet the same machine; the throughput of
32 callers; a move under load. Takes two minutes on two idle cores, no GPU. The server needs fastapi and uvicorn (pip);
without them it is left out, and the results say so.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import package_root, show_table, write_results

ROOT = package_root()

import numpy as np  # noqa: E402 - needs the path above
import onnxruntime  # noqa: E402
from onnx import helper  # noqa: E402

from jupyter_gpufit.calls.client import DeployedModel  # noqa: E402
from jupyter_gpufit.jobs.store import find_job  # noqa: E402
from jupyter_gpufit.settings import load_settings  # noqa: E402
from tests.models.zoo import save  # noqa: E402

CALLS = 500
CALLERS = 32
SECONDS = 10.0
THREADS = 1
WIDTH, LAYERS = 1024, 6


def pooling(path: Path) -> np.ndarray:
    """Almost nothing to compute for an input of 600 KB: what is left is what a call costs."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["y"])]
    save(path, nodes, [("x", ["batch", 3, 224, 224])], [("y", ["batch", 3, 1, 1])])
    return np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)


def perceptron(path: Path) -> np.ndarray:
    """Six layers whose weights are read once for a batch, however many rows it has."""
    random, nodes, constants = np.random.default_rng(0), [], {}
    for layer in range(LAYERS):
        constants[f"w{layer}"] = random.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"h{layer + 1}"]))
    save(path, nodes, [("h0", ["batch", WIDTH])], [(f"h{LAYERS}", ["batch", WIDTH])], constants)
    return random.standard_normal((1, WIDTH), np.float32)


def gpufit(*arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def deployed(path: Path, *options: str) -> DeployedModel:
    print(gpufit("deploy", str(path), "--name", path.stem, *options).strip())
    return DeployedModel(load_settings(), *find_job(load_settings(), path.stem))


def plain(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def latency(path: Path, x: np.ndarray, net: DeployedModel) -> dict[str, Any]:
    session, ours, theirs = plain(path), [], []
    name = session.get_inputs()[0].name
    for _ in range(CALLS):
        start = time.perf_counter()
        net(x)
        middle = time.perf_counter()
        session.run(None, {name: x})
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    found: dict[str, Any] = {"input_KB": x.nbytes // 1000, "calls": CALLS}
    for quantile in (10, 50, 90):
        one, other = (float(np.percentile(times, quantile)) * 1e3 for times in (ours, theirs))
        found[f"p{quantile}_ms"] = {"plain": round(other, 3), "net": round(one, 3), "above": round(one - other, 3)}
    return found


def throughput(call: Callable[[], Callable[[], object]]) -> dict[str, Any]:
    """Calls a second of many callers, each with a connection of its own, and how long one took."""
    ends, took, failed = time.monotonic() + SECONDS, [], []

    def ask() -> None:
        mine = call()
        while time.monotonic() < ends:
            start = time.perf_counter()
            try:
                mine()
                took.append(time.perf_counter() - start)
            except Exception as error:
                failed.append(repr(error))

    callers = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return {
        "callers": CALLERS,
        "per_second": round(len(took) / SECONDS, 1),
        "p50_ms": round(float(np.percentile(took, 50)) * 1e3, 2),
        "p99_ms": round(float(np.percentile(took, 99)) * 1e3, 2),
        "failed": len(failed),
    }


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def beside_a_server(path: Path, x: np.ndarray, folder: Path) -> dict[str, Any] | str:
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        return "not measured: pip install fastapi uvicorn"
    address = str(folder / "server.sock")
    command = [sys.executable, str(Path(__file__).with_name("deploy_server.py")), str(path), address, str(THREADS)]
    server = subprocess.Popen(command)
    try:
        while not os.path.exists(address):
            assert server.poll() is None
            time.sleep(0.1)
        body = x.tobytes()

        def call() -> Callable[[], object]:
            connection = _Unix(address)

            def ask() -> object:
                connection.request("POST", "/", body)
                return connection.getresponse().read()

            return ask

        while True:
            with suppress(OSError):
                call()()
                break
        return throughput(call)
    finally:
        server.terminate()
        server.wait()


def moved(net: DeployedModel, x: np.ndarray) -> dict[str, Any]:
    """Four callers, and a move in the middle."""
    ended, took, failed = threading.Event(), [], []

    def ask() -> None:
        while not ended.is_set():
            start = time.perf_counter()
            try:
                net(x)
                took.append(time.perf_counter() - start)
            except Exception as error:
                failed.append(repr(error))

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for caller in callers:
        caller.start()
    start = time.monotonic()
    gpufit("move", net.name)
    seconds = time.monotonic() - start
    ended.set()
    for caller in callers:
        caller.join()
    return {
        "calls": len(took),
        "failed": len(failed),
        "longest_call_ms": round(max(took) * 1e3, 2),
        "p50_ms": round(float(np.percentile(took, 50)) * 1e3, 2),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {
            "GPUFIT_DATA": f"{folder}/data",
            "GPUFIT_LAB": f"{folder}/lab",
            "GPUFIT_RUNTIME": f"{folder}/run",
            "GPUFIT_DEVICES": "cpu:2x2GiB",
        }
        results: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
        names = []
        try:
            x = pooling(folder / "pooling.onnx")
            names.append("pooling")
            results["one caller"] = latency(folder / "pooling.onnx", x, deployed(folder / "pooling.onnx"))
            x = perceptron(folder / "perceptron.onnx")
            names.append("perceptron")
            net = deployed(folder / "perceptron.onnx", "--rows", str(CALLERS))
            results["32 callers"] = {
                "net": throughput(lambda: lambda: net(x)),
                "FastAPI": beside_a_server(folder / "perceptron.onnx", x, folder),
            }
            results["move"] = moved(net, x)
        finally:
            for one in names:
                gpufit("stop", one)
        show_table(["what", "figures"], list(results.items()))
        write_results("deploy", results)


if __name__ == "__main__":
    main()
