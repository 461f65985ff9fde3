"""A deployed model, as a notebook or a script calls it: numpy or torch in, the same out."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import BadCall, CallFailed, NotServing, QueueFull, TooLate
from ..jobs.job import Job
from ..jobs.paths import JobPaths, calls_path
from ..jobs.record import read_record
from ..jobs.state import GOING, OVER, in_words
from ..models.signature import Signature, named
from ..models.taken import models_from_json
from ..settings import Settings
from ..units import MiB
from .protocol import LARGEST, Call, CallReply, Lying, encode, lay_out
from .region import SharedRegion

MOST_IDLE = 8  # connections that are kept for the next calls
FOR_ANSWERS = MiB  # bytes behind the inputs, before a first answer tells how many it takes


class DeployedModel:
    """Calls one job's model; from any thread. Moves, and a resume, change nothing for who has it."""

    def __init__(self, settings: Settings, job: Job, paths: JobPaths, model: str = "") -> None:
        assert job.model is not None
        names = list(job.model.files)
        self.model = model or names[0]
        self.name = job.name  # of the job; its verbs take it
        self.id = job.id
        self.deadline = job.model.deadline  # seconds that a call has; None: as long as it takes
        self.signature: Signature = models_from_json(paths.model.read_text())[self.model].signature
        self._number = names.index(self.model)
        self.called = f"{self.name}.{self.model}" if job.model.several else self.name  # as HTTP knows it, too
        self._paths = paths
        self._address = str(calls_path(settings, job.id))
        self._idle: list[_Connection] = []
        self._guard = threading.Lock()

    def __call__(self, *given: Any, **by_name: Any) -> Any:
        """Run the model; one array for one output, else a tuple of them."""
        values = named(self.signature, given, by_name)
        tensor = _tensor_of(values)
        arrays = [_array(slot.name, values[slot.name]) for slot in self.signature.inputs]
        answers = self._call(arrays)
        if tensor is not None:
            answers = [tensor.new_tensor(answer) for answer in answers]  # where that one is
        return answers[0] if len(answers) == 1 else tuple(answers)

    def __repr__(self) -> str:
        record = read_record(self._paths)
        where = f" on {record.device}" if record.device and record.state in GOING else ""
        return f"<{self.called}: {record.state}{where}; {self.signature.words}>"

    def _call(self, arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
        deadline = None if self.deadline is None else time.monotonic() + self.deadline
        connection = self._take()
        try:
            connection.ask(arrays, self._number, deadline)
            reply = connection.reply()
            answers = [np.array(connection.array(one)) for one in reply.outputs]  # its memory is the next call's
        except (OSError, EOFError, ValueError) as error:
            connection.close()
            raise CallFailed(self.name, self._why_cut_off(error)) from error
        except BaseException:
            connection.close()  # given up: what comes of it must not be taken for the next one's
            raise
        self._give_back(connection)
        self._raise(reply)
        return answers

    def _raise(self, reply: CallReply) -> None:
        if reply.bad:
            raise BadCall(reply.bad)
        if reply.failed:
            raise CallFailed(self.called, reply.failed)
        if reply.left:
            raise NotServing(self.name, reply.left)
        if reply.late:
            raise TooLate(self.called, self.deadline or 0.0, reply.seconds, reply.taken)
        if reply.waiting:
            raise QueueFull(self.called, reply.waiting, reply.seconds)

    # Connections ---------------------------------------------------------------------------------------------------

    def _take(self) -> _Connection:
        while True:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if not connection.closed_by_the_other():  # its worker ended, and perhaps another one is there
                return connection
            connection.close()
        try:
            return _Connection(self._address)
        except OSError as error:
            raise NotServing(self.name, self._why_not_there()) from error

    def _give_back(self, connection: _Connection) -> None:
        with self._guard:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _why_not_there(self) -> str:
        record = read_record(self._paths)
        if record.state == "released":  # whose reason says the same as this
            return f"it is released. To have it back: %gpufit resume {self.name}"
        reason = f" ({record.reason})" if record.reason else ""
        if record.state in OVER:
            return f"it {in_words(record.state)}{reason}. To have it back: %gpufit resume {self.name}"
        return f"it {in_words(record.state)}{reason}. `gpufit status` says more."

    def _why_cut_off(self, error: Exception) -> str:
        record = read_record(self._paths)
        if record.state in OVER:
            why = self._why_not_there()
            return f"it ended during the call. {why[0].upper()}{why[1:]}"
        return f"the connection broke ({str(error) or type(error).__name__})"


class DeployedModels(Sequence[DeployedModel]):
    """Several models of one job: `a, b = models`, or `models["a"]`."""

    def __init__(self, settings: Settings, job: Job, paths: JobPaths) -> None:
        assert job.model is not None
        self.name = job.name
        self._models = [DeployedModel(settings, job, paths, name) for name in job.model.files]

    def __len__(self) -> int:
        return len(self._models)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._models[which]
        for one in self._models:
            if one.model == which:
                return one
        raise KeyError(f"{self.name} has {', '.join(one.model for one in self._models)}, and no {which!r}")

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._models))


class _Connection:
    """One socket and the memory that belongs to it; for one call at a time."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._region: SharedRegion | None = None
        self._answers = FOR_ANSWERS
        self._heard: float | None = None  # when the last answer was read
        self._out = 0  # byte of the last call from which on answers may be
        try:
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, arrays: list[np.ndarray[Any, Any]], model: int = 0, deadline: float | None = None) -> None:
        places, out = lay_out([array.nbytes for array in arrays])
        region, new = self._region_of(out + self._answers)
        lying = tuple(Lying(array.dtype.name, array.shape, at) for array, at in zip(arrays, places, strict=True))
        for array, place in zip(arrays, lying, strict=True):
            np.copyto(region.array(place), array)
        # Whoever keeps deadlines is to know how long its answers are on their way.
        message = encode(Call(lying, out, model, deadline, self._heard if deadline is not None else None))
        if len(message) > LARGEST:
            raise BadCall("it has more inputs than fit into one message.")
        if new:
            socket.send_fds(self._socket, [message], [region.fd])
        else:
            self._socket.send(message)
        self._out = out

    def reply(self) -> CallReply:
        packet = self._socket.recv(LARGEST)
        if not packet:
            raise EOFError("it closed the connection")
        self._heard = time.monotonic()
        reply = CallReply.decode(packet)
        if reply.outputs:
            assert self._region is not None
            self._answers = max(self._answers, self._region.size - self._out)
        return reply

    def array(self, lying: Lying) -> np.ndarray[Any, Any]:
        assert self._region is not None
        return self._region.array(lying)

    def _region_of(self, size: int) -> tuple[SharedRegion, bool]:
        """Memory of at least that size, and whether the other side does not know it yet."""
        if self._region is not None and self._region.size >= size:
            return self._region, False
        self._close_region()
        self._region = SharedRegion.make(size)
        return self._region, True

    def closed_by_the_other(self) -> bool:
        with suppress(BlockingIOError):
            try:
                return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except ConnectionError:
                return True
        return False

    def close(self) -> None:
        self._socket.close()
        self._close_region()

    def _close_region(self) -> None:
        if self._region is not None:
            self._region.close()
            self._region = None

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end, what it needs may be gone
            self.close()


# numpy and torch --------------------------------------------------------------------------------------------------


def _tensor_of(values: dict[str, object]) -> Any:
    """A tensor of torch's among them, if there is one; nobody else has it imported."""
    torch = sys.modules.get("torch")
    return next((one for one in values.values() if torch is not None and isinstance(one, torch.Tensor)), None)


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype.hasobject or array.dtype.kind not in "biufc":
        raise BadCall(f"{name} is a {type(value).__name__}; give an array of numbers, of numpy or torch.")
    return array
