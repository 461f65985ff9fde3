"""`gpufit serve`: this user's deployed models over HTTP, by the Open Inference Protocol; on a Unix socket, or loopback.

Whoever can open the socket (0600) is its user. On loopback every other user of the machine could connect: there, each
request carries the token.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, HTTPError, RequestHandler

from ..calls import kserve
from ..calls.client import DeployedModel
from ..errors import BadCall, GpufitError, NoSuchJob, NotServing, QueueFull, StorageError, TooLate
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import GOING
from ..jobs.store import find_job
from ..settings import Settings
from ..system.files import write_whole
from ..system.runtime import runtime_dir
from ..system.version import version
from ..units import MiB

MOST_AT_ONCE = 64  # requests that are with a model; more are refused, as by a full queue
SOON = 1.0  # seconds after which one of them may be answered
LARGEST = 256 * MiB  # of one request


async def serve(settings: Settings, port: int | None, say: Callable[[str], None]) -> None:
    """Until cancelled."""
    token = None if port is None else secrets.token_urlsafe(32)
    with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="gpufit-serve") as pool:
        server = HTTPServer(application(Models(settings), token, pool), max_buffer_size=LARGEST)
        try:
            if port is None:
                path = runtime_dir(settings) / "serve.sock"
                server.add_socket(bind_unix_socket(str(path), mode=0o600))
                say(
                    f"Models answer on the socket {path}, for you alone. Try: curl --unix-socket {path} http://gpufit/v2"
                )
            else:
                sockets = bind_sockets(port, "127.0.0.1")
                server.add_sockets(sockets)
                file = runtime_dir(settings) / "serve.token"
                write_whole(file, f"{token}\n")
                address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
                say(f'Models answer on {address}. Try: curl -H "Authorization: Bearer $(cat {file})" {address}/v2')
            await asyncio.Event().wait()
        except OSError as error:
            raise StorageError(str(port or path), error.strerror or str(error), "--port") from error
        finally:
            server.stop()


class Models:
    """Those of one user, by their names."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, DeployedModel] = {}

    def find(self, name: str) -> DeployedModel:
        """Raise NoSuchJob where no model has this name."""
        if name not in self._known:
            job, paths, model = self._job(name)
            self._known[name] = DeployedModel(self._settings, job, paths, model)
        return self._known[name]

    def is_ready(self, name: str) -> bool:
        return read_record(self._job(name)[1]).state in GOING

    def _job(self, name: str) -> tuple[Job, JobPaths, str]:
        """The job, and which of its models: `models-1.resnet`."""
        try:
            job, paths = find_job(self._settings, name)
            model = ""
        except NoSuchJob:
            outer, _, model = name.rpartition(".")
            job, paths = find_job(self._settings, outer or name)
        if job.model is None or (model and model not in job.model.files):
            raise NoSuchJob(name)
        if job.model.several and not model:
            raise NoSuchJob(name, tuple(f"{name}.{one}" for one in job.model.files))
        return job, paths, model

    def call(self, name: str, asked: kserve.InferRequest) -> list[np.ndarray[Any, Any]]:
        """Of a name that another job has by now, that one."""
        try:
            found = self.find(name)(**asked.inputs)
        except NotServing:
            self._known.pop(name, None)
            found = self.find(name)(**asked.inputs)
        return list(found) if isinstance(found, tuple) else [found]


@dataclass
class RequestRoom:
    """For requests that are with a model."""

    most: int
    taken: int = 0


def application(models: Models, token: str | None, pool: ThreadPoolExecutor, most: int = MOST_AT_ONCE) -> Application:
    """What answers, with so many requests at once at most."""
    given = {"models": models, "token": token, "room": RequestRoom(most), "pool": pool}
    model = r"/v2/models/([\w.-]+)(?:/versions/1)?"
    return Application(
        [
            (r"/v2/?", _Server, given),
            (r"/v2/health/(?:live|ready)", _Health, given),
            (model, _About, given),
            (f"{model}/ready", _Ready, given),
            (f"{model}/infer", _Infer, given),
        ],
        default_handler_class=_Nothing,
        default_handler_args=given,
        log_function=lambda handler: None,
    )


class _Handler(RequestHandler):
    def initialize(self, models: Models, token: str | None, room: RequestRoom, pool: ThreadPoolExecutor) -> None:
        self.models = models
        self.token = token
        self.room = room
        self.pool = pool

    def prepare(self) -> None:
        given = self.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token is not None and not hmac.compare_digest(given.encode(), self.token.encode()):
            self.set_header("WWW-Authenticate", "Bearer")
            self._refuse(401, "The token is missing or wrong: Authorization: Bearer TOKEN, as `gpufit serve` says.")

    def _refuse(self, code: int, why: str, **more: object) -> None:
        self.set_status(code)
        self.finish({"error": why, **more})

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        match error:
            case QueueFull() | TooLate():
                self.set_header("Retry-After", str(max(1, math.ceil(error.seconds))))
                self._refuse(429, str(error), seconds=error.seconds)
            case BadCall():
                self._refuse(400, str(error))
            case NoSuchJob():
                self._refuse(404, str(error))
            case NotServing():
                self._refuse(503, str(error))
            case GpufitError():
                self._refuse(500, str(error))
            case HTTPError():
                self._refuse(status_code, f"{error.log_message or self._reason}.")
            case _:
                self._refuse(500, f"jupyter_gpufit itself failed: {type(error).__name__}.")

    def log_exception(self, *error: Any) -> None:
        if not isinstance(error[1], GpufitError | HTTPError):
            super().log_exception(*error)


class _Nothing(_Handler):
    def prepare(self) -> None:
        super().prepare()
        if not self._finished:
            self._refuse(404, "There is nothing here. Models are at /v2/models/NAME.")


class _Server(_Handler):
    def get(self) -> None:
        self.finish({"name": "gpufit", "version": version(), "extensions": list(kserve.EXTENSIONS)})


class _Health(_Handler):
    def get(self) -> None:
        self.finish({"live": True, "ready": True})


class _About(_Handler):
    def get(self, name: str) -> None:
        self.finish(kserve.about(name, self.models.find(name).signature))


class _Ready(_Handler):
    def get(self, name: str) -> None:
        ready = self.models.is_ready(name)
        self.set_status(200 if ready else 503)
        self.finish({"name": name, "ready": ready})


class _Infer(_Handler):
    async def post(self, name: str) -> None:
        if self.room.taken >= self.room.most:
            raise QueueFull(name, self.room.taken, SOON)
        self.room.taken += 1
        try:
            header = self.request.headers.get("Inference-Header-Content-Length")
            body, length = await asyncio.get_running_loop().run_in_executor(
                self.pool, self._infer, name, self.request.body, header
            )
        finally:
            self.room.taken -= 1
        if length is not None:
            self.set_header("Inference-Header-Content-Length", str(length))
            self.set_header("Content-Type", "application/octet-stream")
        else:
            self.set_header("Content-Type", "application/json")
        self.finish(body)

    def _infer(self, name: str, body: bytes, header: str | None) -> tuple[bytes, int | None]:
        """In a thread of the pool."""
        if header is not None and not (header.isascii() and header.isdigit() and int(header) <= len(body)):
            raise BadCall(f"The header's length is {header!r}, and {len(body):,} bytes came.")
        signature = self.models.find(name).signature
        asked = kserve.read(signature, body, None if header is None else int(header))
        return kserve.answer(name, asked, signature, self.models.call(name, asked))
