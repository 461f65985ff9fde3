"""`gpufit serve`: curl, and a client of the protocol, call a deployed model; whoever lacks the token does not."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from jupyter_gpufit.errors import QueueFull
from jupyter_gpufit.models.signature import Signature, Slot
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.terminal.serve import Models, application
from tests.command_line import gpufit, kill_workers, typing
from tests.models.zoo import affine

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs" / "deploy.md"
INPUT = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [1.0] * 8}


@pytest.fixture(scope="module")
def weights(home: Path, env: dict[str, str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of the model `net`, which is deployed."""
    found = affine(home / "net.onnx")
    deployed = gpufit(env, "deploy", str(home / "net.onnx"), "--name", "net")
    assert deployed.returncode == 0, deployed.stderr
    yield found
    kill_workers(home)


@contextmanager
def serving(env: dict[str, str], *options: str) -> Iterator[str]:
    """What it says once it listens."""
    process = typing(env, "serve", *options)
    try:
        assert process.stdout is not None
        yield process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def curl(*arguments: str) -> Any:
    ran = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is NOT installed: the socket is NOT TESTED with it")
def test_curl_calls_it_on_a_socket_for_its_user_alone(
    env: dict[str, str], weights: tuple[np.ndarray, np.ndarray]
) -> None:
    w, b = weights
    with serving(env) as said:
        path = Path(re.findall(r"socket (\S+),", said)[0])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        here = ("--unix-socket", str(path))
        assert curl(*here, "http://gpufit/v2")["name"] == "gpufit"
        assert curl(*here, "http://gpufit/v2/health/ready")["ready"]
        about = curl(*here, "http://gpufit/v2/models/net")
        assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
        assert curl(*here, "http://gpufit/v2/models/net/ready") == {"name": "net", "ready": True}
        infer = (*here, "http://gpufit/v2/models/net/infer", "-d")
        answered = curl(*infer, json.dumps({"inputs": [INPUT]}))["outputs"][0]
        assert answered["shape"] == [2, 2]
        np.testing.assert_allclose(answered["data"], (np.ones((2, 4), np.float32) @ w + b).ravel(), rtol=1e-5)
        for body, why in (
            ({"inputs": [{**INPUT, "shape": [1, 8]}]}, "x has the shape [1, 8], and the model takes [batch, 4]"),
            ({"inputs": [{**INPUT, "name": "z"}]}, "The model has no input 'z'"),
            ({"inputs": [{**INPUT, "datatype": "FP64"}]}, "x is float64, and the model takes float32"),
        ):
            assert why in curl(*infer, json.dumps(body))["error"]
        assert "There is no job 'nett'. Did you mean net?" in curl(*here, "http://gpufit/v2/models/nett")["error"]
        gpufit(env, "release", "net")
        assert "%gpufit resume net" in curl(*infer, json.dumps({"inputs": [INPUT]}))["error"]
        gpufit(env, "resume", "net")
        assert curl(*infer, json.dumps({"inputs": [INPUT]}))["outputs"] == [answered]


def test_on_loopback_nobody_is_answered_without_the_token(
    home: Path, env: dict[str, str], weights: tuple[np.ndarray, np.ndarray]
) -> None:
    with serving(env, "--port", "0") as said:
        address, port = re.findall(r"http://(127\.0\.0\.1):(\d+)", said)[0]
        file = Path(re.findall(r"cat (\S+)\)", said)[0])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

        def ask(path: str, token: str) -> tuple[int, Any]:
            connection = http.client.HTTPConnection(address, int(port), timeout=60)
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
                answered = connection.getresponse()
                return answered.status, json.loads(answered.read())
            finally:
                connection.close()

        for path in ("/v2", "/v2/models/net", "/v2/models/net/infer", "/nothing"):
            for token in ("", "wrong"):
                status, record = ask(path, token)
                assert status == 401 and "The token is missing or wrong" in record["error"]
        token = file.read_text().strip()
        assert ask("/v2/models/net", token)[0] == 200
        assert ask("/nothing", token)[0] == 404


class _Full:
    """A model whose queue has no room."""

    signature = Signature((Slot("x", "float32", ("batch", 4)),), (Slot("y", "float32", ("batch", 2)),))

    def __call__(self, x: np.ndarray) -> object:
        raise QueueFull("net", 128, 2.5)


class _FullModels(Models):
    def find(self, name: str) -> Any:
        return _Full()


def test_a_full_queue_is_told_with_the_time_and_so_is_a_server_with_too_many_requests() -> None:
    async def asking(most: int) -> Any:
        with ThreadPoolExecutor(1) as pool:
            server = HTTPServer(application(_FullModels(Settings()), None, pool, most))
            [listening] = bind_sockets(0, "127.0.0.1")
            server.add_socket(listening)
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/v2/models/net/infer"
            body = json.dumps({"inputs": [INPUT]})
            found = await AsyncHTTPClient().fetch(address, method="POST", body=body, raise_error=False)
            server.stop()
            await server.close_all_connections()
            return found.code, found.headers["Retry-After"], json.loads(found.body)

    code, after, record = anyio.run(asking, 1)
    assert (code, after, record["seconds"]) == (429, "3", 2.5)
    assert "has 128 requests waiting, and takes no more now" in record["error"]
    assert anyio.run(asking, 0)[0] == 429


def test_a_client_of_the_protocol_calls_it(env: dict[str, str], weights: tuple[np.ndarray, np.ndarray]) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="tritonclient is NOT installed: NOT TESTED with it")
    w, b = weights
    with serving(env, "--port", "0") as said:
        [port] = re.findall(r"127\.0\.0\.1:(\d+)\.", said)
        file = Path(re.findall(r"cat (\S+)\)", said)[0])
        token = file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        assert client.is_server_ready(headers=headers) and client.is_model_ready("net", headers=headers)
        x = np.random.default_rng(0).standard_normal((5, 4), np.float32)
        for as_bytes in (True, False):
            given = triton.InferInput("x", list(x.shape), "FP32")
            given.set_data_from_numpy(x, binary_data=as_bytes)
            wanted = [triton.InferRequestedOutput("y", binary_data=as_bytes)]
            found = client.infer("net", [given], outputs=wanted, headers=dict(headers))  # it adds to them
            answered = found.as_numpy("y")
            np.testing.assert_allclose(answered, x @ w + b, rtol=1e-5)
        client.close()
        [documented] = re.findall(r"```python\n(import os.*?)```", DOCS.read_text(), re.DOTALL)
        for one, ours in (("8080", port), ("resnet-1", "net"), ("$XDG_RUNTIME_DIR/gpufit", str(file.parent))):
            assert one in documented
            documented = documented.replace(one, ours)
        names: dict[str, Any] = {}
        exec(documented, names)
        np.testing.assert_allclose(names["y"], np.ones((1, 4), np.float32) @ w + b, rtol=1e-5)
        names["client"].close()
