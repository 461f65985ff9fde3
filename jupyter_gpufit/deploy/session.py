"""A session of ONNX Runtime: made, tried, and run with one call or with many as one batch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from ..models.signature import Signature, Slot
from .providers import Provider, check_provider

Arrays = list[np.ndarray[Any, Any]]
TRIES = 3  # rows
CLOSE = 1e-3  # of the largest answer: batches of other sizes are summed up in another order


class OrtSession(Protocol):
    """What of onnxruntime.InferenceSession is used."""

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> Any: ...
    def get_providers(self) -> list[str]: ...


Open = Callable[[str, Provider], OrtSession]


def open_session(path: str, provider: Provider) -> OrtSession:
    """The real one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = provider.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    if provider.names[0] == "CUDAExecutionProvider" and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # CUDA's libraries as Python packages bring them
    first, *others = provider.names
    session: OrtSession = onnxruntime.InferenceSession(
        path, options, providers=[(first, dict(provider.options)), *others]
    )
    return session


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """What loading showed."""

    seconds: float  # until the model could answer
    batches: bool  # calls may be put together
    took: int  # bytes at most, while it was loaded and ran
    remark: str = ""

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


class Model:
    """A model that runs."""

    def __init__(self, path: str, signature: Signature, provider: Provider, opening: Open = open_session) -> None:
        self.signature = signature
        self._names = [slot.name for slot in signature.inputs]
        self._session = opening(path, provider)
        check_provider(provider, self._session.get_providers())

    def run(self, inputs: Arrays) -> Arrays:
        return list(self._session.run(None, dict(zip(self._names, inputs, strict=True))))

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

    def warm(self, rows: int, sizes: Mapping[str, int]) -> None:
        """Run once with as many rows as it ever will, so that it has what it takes; a model may refuse our inputs."""
        try:
            self.run([made(slot, rows, sizes) for slot in self.signature.inputs])
        except Exception:
            return


def load(
    model: Callable[[], Model], rows: int, sizes: Mapping[str, int], took: Callable[[], int]
) -> tuple[Model, LoadedModel]:
    """Make it, try it, and say what it took."""
    began = time.monotonic()
    here = model()
    batches, remark = here.batches(sizes)
    here.warm(rows if here.signature.may_batch else 1, sizes)
    return here, LoadedModel(seconds=time.monotonic() - began, batches=batches, took=took(), remark=remark)


def made(slot: Slot, rows: int, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """An input that nobody gave: numbers around zero, and among whole ones those that most models know."""
    shape = [dim if isinstance(dim, int) else sizes.get(dim, 1) for dim in slot.shape or ()]
    if slot.shape and isinstance(slot.shape[0], str):
        shape[0] = rows
    if np.dtype(slot.dtype).kind == "f":
        return np.random.default_rng(0).standard_normal(shape, np.float32).astype(slot.dtype, copy=False)
    numbers = np.zeros(shape, slot.dtype)
    if shape:
        numbers[1::2] = 1  # every second row
    return numbers


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
