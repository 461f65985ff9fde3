"""ONNX's own backend tests through a deployment's steps, in one process: taken, loaded, called in shared memory.

ONNX Runtime in plain is the judge: what it answers, a deployed model answers, too; what deploying refuses, it refuses
for a reason that it has.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from jupyter_gpufit.calls.protocol import Call, Lying, lay_out
from jupyter_gpufit.calls.region import SharedRegion
from jupyter_gpufit.deploy.instance import Instance
from jupyter_gpufit.deploy.providers import CPU, Provider
from jupyter_gpufit.deploy.session import Model
from jupyter_gpufit.errors import ModelRefused
from jupyter_gpufit.models.signature import check_call
from jupyter_gpufit.models.taking import take

OURS = re.compile(r"and no tensor|which numpy does not have")  # what ONNX Runtime could run, and a call cannot bring
ROWS = 16


@dataclass(frozen=True)
class Case:
    """One model with what it is called with."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Any]


def generated() -> Iterator[Case]:
    """One for each way in which an operator may be used."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is not None and case.data_sets:
            inputs, _ = case.data_sets[0]
            yield Case(case.name, case.model, inputs)


def from_files() -> Iterator[Case]:
    """Models that PyTorch has made, and some small ones."""
    from onnx.backend.test.loader import DATA_DIR

    for path in sorted(Path(DATA_DIR).glob("*/*/model.onnx")):
        tensors = []
        for file in sorted(path.parent.glob("test_data_set_0/input_*.pb"), key=lambda one: int(one.stem[6:])):
            tensor = onnx.TensorProto()
            try:
                tensor.ParseFromString(file.read_bytes())
                tensors.append(numpy_helper.to_array(tensor))
            except Exception:  # a sequence, or an optional
                break
        else:
            yield Case(f"{path.parts[-3]}/{path.parts[-2]}", onnx.load(path), tensors)


def deployed(case: Case, folder: Path) -> str:
    """ "same", or why it was refused; raises AssertionError where the answers differ."""
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    plain, error = _plain(path, case)
    try:
        taken = take(path, ROWS, {})
    except ModelRefused as refused:
        assert plain is None or OURS.search(refused.why), f"{case.name}: {refused.why}"
        return "refused"
    if plain is None:
        return f"ONNX Runtime cannot: {error}"
    model = Model(str(path), taken.signature, Provider(names=(CPU,), threads=1))
    arrays = [np.asarray(one) for one in case.inputs]
    slots = taken.signature.inputs
    found = {slot.name: (one.dtype.name, one.shape) for slot, one in zip(slots, arrays, strict=True)}
    check_call(taken.signature, found)
    answers = _called(model, arrays)
    assert len(answers) == len(plain), case.name
    for one, other in zip(answers, plain, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=case.name)
    return "same"


def _plain(path: Path, case: Case) -> tuple[list[Any] | None, str]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=[CPU])
        names = [one.name for one in session.get_inputs()]
        return list(session.run(None, dict(zip(names, case.inputs, strict=True)))), ""
    except Exception as error:  # its own, of many kinds
        return None, type(error).__name__


def _called(model: Model, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """As a client and an instance do, without their processes."""
    ours, theirs = socket.socketpair()
    instance = Instance({"rows": ROWS}, theirs, theirs)
    places, out = lay_out([array.nbytes for array in arrays])
    mine = SharedRegion.make(out + 1)
    instance._regions[1] = mine
    lying = tuple(Lying(array.dtype.name, array.shape, at) for array, at in zip(arrays, places, strict=True))
    for array, place in zip(arrays, lying, strict=True):
        np.copyto(mine.array(place), array)
    [answer] = instance._answers(model, [(1, Call(lying, out))])
    assert "outputs" in answer, answer
    found = [np.array(mine.array(Lying.of([dtype, list(shape), at]))) for dtype, shape, at in answer["outputs"]]
    mine.close()
    ours.close()
    theirs.close()
    return found
