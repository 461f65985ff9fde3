"""A session of ONNX Runtime: made, tried, and run with one call or with many as one batch."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..models.made import made
from ..models.signature import Signature
from ..system.foreign import known
from .profile import DevicePace, Profile
from .providers import CPU, Provider, check_provider
from .residents import Residents
from .runtime import OnnxRuntime, OrtRuntime, run_bound

Arrays = list[np.ndarray[Any, Any]]
TRIES = 3  # rows
TIMED = 20  # runs
PATIENCE = 0.1  # seconds for them, but for the first two
CLOSE = 1e-3  # of the largest answer: batches of other sizes are summed up in another order


@dataclass(frozen=True, kw_only=True)
class TriedModel:
    """What the first runs of one model showed."""

    batches: bool  # calls may be put together
    remark: str = ""
    runs: tuple[tuple[int, float], ...] = ()  # rows, and the seconds that they took at most
    weights: int = 0  # bytes that are loaded and evicted
    load: float = 0.0  # seconds

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TriedModel:
        found = known(cls, record)
        return cls(**{**found, "runs": tuple((rows, seconds) for rows, seconds in found["runs"])})


@dataclass(frozen=True, kw_only=True)
class LoadedModels:
    """What loading showed."""

    seconds: float  # until they could answer
    took: int  # bytes at most, while they were loaded and ran
    models: tuple[TriedModel, ...]
    room: int = 0  # bytes for weights that come and go
    inside: tuple[int, ...] = ()  # whose weights are there now

    @property
    def profiles(self) -> list[Profile]:
        pace = DevicePace()
        return [Profile(one.runs, one.load, pace) for one in self.models]

    @property
    def residents(self) -> Residents:
        return Residents([one.weights for one in self.models], self.room, dict.fromkeys(self.inside))

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LoadedModels:
        found = known(cls, record)
        models = tuple(map(TriedModel.from_record, found["models"]))
        return cls(**{**found, "models": models, "inside": tuple(found["inside"])})


class Model:
    """A model that runs."""

    weights = 0  # bytes that come and go

    def __init__(
        self,
        path: str,
        signature: Signature,
        provider: Provider,
        runtime: OrtRuntime | None = None,
        *,
        shared: bool = False,
    ) -> None:
        runtime = runtime or OnnxRuntime()
        self.signature = signature
        self._names = [slot.name for slot in signature.inputs]
        self._session = runtime.session(path, provider, shared=shared)
        check_provider(provider, self._session.get_providers())
        self._binding = self._session.io_binding() if provider.names[0] != CPU else None

    def load(self) -> None:
        """Have its weights where it runs: a session has them."""

    def evict(self) -> None:
        """Let go of them, where that can be."""

    def run(self, inputs: Arrays) -> Arrays:
        feed = dict(zip(self._names, inputs, strict=True))
        if self._binding is None:
            return list(self._session.run(None, feed))
        return run_bound(self._session, self._binding, feed, [slot.name for slot in self.signature.outputs])

    def run_in_parts(self, inputs: Arrays, rows: int) -> Arrays:
        """The same, so many rows at a time."""
        count = len(inputs[0])
        if count <= rows:
            return self.run(inputs)
        parts = [self.run([one[at : at + rows] for one in inputs]) for at in range(0, count, rows)]
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    def run_together(self, calls: Sequence[Arrays], rows: int) -> list[Arrays]:
        """Several calls as one batch; each gets its rows."""
        joined = [np.concatenate(pieces) for pieces in zip(*calls, strict=True)]
        answers = self.run_in_parts(joined, rows)
        ends = np.cumsum([len(call[0]) for call in calls])[:-1]
        return [list(pieces) for pieces in zip(*(np.split(one, ends) for one in answers), strict=True)]

    def batches(self, sizes: Mapping[str, int]) -> tuple[bool, str]:
        """Whether a row's answer is the same with other rows beside it, by a trial; and why it is not."""
        if not self.signature.may_batch:
            return False, ""
        try:
            given = [made(slot, TRIES, sizes) for slot in self.signature.inputs]
            together = self.run(given)
            alone = [self.run([one[row : row + 1] for one in given]) for row in range(TRIES)]
        except Exception as error:  # ONNX Runtime's own: these inputs, made by us, are none that it takes
            return False, f"calls are not put together: a trial failed ({first_line(error)})."
        for at, whole in enumerate(together):
            pieces = [answers[at] for answers in alone]
            if len(whole) != TRIES or any(len(piece) != 1 for piece in pieces):
                return False, "calls are not put together: its answers do not have a row for each row of its inputs."
            if not _close(whole, np.concatenate(pieces)):
                return False, "calls are not put together: its answer to a row depends on the rows beside it."
        return True, ""

    def times(self, rows: int, sizes: Mapping[str, int]) -> tuple[tuple[int, float], ...]:
        """How long one row takes, and as many as it ever will run at once; nothing where it refuses our inputs.

        So it has what it takes, too.
        """
        found = []
        for count in sorted({1, rows}) if self.signature.may_batch else (1,):
            try:
                given = [made(slot, count, sizes) for slot in self.signature.inputs]
                self.run(given)  # the first time takes longer
                took: list[float] = []
                while len(took) < 2 or (len(took) < TIMED and sum(took) < PATIENCE):
                    began = time.perf_counter()
                    self.run(given)
                    took.append(time.perf_counter() - began)
                found.append((count, max(took)))
            except Exception:  # ONNX Runtime's own
                break
        return tuple(found)


def tried(model: Model, rows: int, sizes: Mapping[str, int], load: float = 0.0) -> TriedModel:
    """Run it a few times, and say how that went."""
    batches, remark = model.batches(sizes)
    return TriedModel(batches=batches, remark=remark, runs=model.times(rows, sizes), weights=model.weights, load=load)


def first_line(error: BaseException) -> str:
    """What ONNX Runtime says, without its own numbers and places."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+:\d+ ", "", lines[0])[:300].rstrip(".")


def _close(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    largest = float(np.max(np.abs(one[np.isfinite(one)]), initial=0.0))
    return bool(np.allclose(one, other, rtol=CLOSE, atol=CLOSE * max(largest, 1e-30), equal_nan=True))
