"""The Open Inference Protocol (KServe v2), as its clients speak it: JSON, or tensors as bytes behind the JSON; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import BadCall
from ..models.signature import Signature, Slot
from ..system.foreign import parsed_record

DATATYPES = {
    "bool": "BOOL",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}
DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items()}
EXTENSIONS = ("binary_tensor_data",)


@dataclass(frozen=True)
class InferRequest:
    """One request for an inference."""

    inputs: Mapping[str, np.ndarray[Any, Any]]
    outputs: tuple[tuple[str, bool], ...]  # their names, and whether as bytes
    id: str = ""


def about(name: str, signature: Signature) -> dict[str, Any]:
    """What a model says of itself."""
    return {
        "name": name,
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": [_tensor(slot) for slot in signature.inputs],
        "outputs": [_tensor(slot) for slot in signature.outputs],
    }


def _tensor(slot: Slot) -> dict[str, Any]:
    shape = [dim if isinstance(dim, int) else -1 for dim in slot.shape or ()]
    return {"name": slot.name, "datatype": DATATYPES.get(slot.dtype, slot.dtype), "shape": shape}


def read(signature: Signature, body: bytes, header: int | None) -> InferRequest:
    """Raise BadCall, in a sentence, for what is no request; `header`: so many bytes of it are the JSON."""
    try:
        record = parsed_record(body[: len(body) if header is None else header])
        behind = memoryview(body)[len(body) if header is None else header :]
        given: dict[str, np.ndarray[Any, Any]] = {}
        for one in _list(record, "inputs"):
            given[str(one["name"])], behind = _array(one, behind)
        every = bool(_parameters(record).get("binary_data_output", False))
        asked = [
            (str(one["name"]), bool(_parameters(one).get("binary_data", every))) for one in _list(record, "outputs")
        ]
    except BadCall:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BadCall(f"The request cannot be read: {type(error).__name__}: {error}.") from error
    known = [slot.name for slot in signature.outputs]
    if unknown := [name for name, _ in asked if name not in known]:
        raise BadCall(f"The model has no output {unknown[0]!r}; it has {', '.join(known)}.")
    return InferRequest(given, tuple(asked or [(name, every) for name in known]), str(record.get("id", "")))


def _list(record: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = record.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{key} is not a list of objects")
    return found


def _parameters(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get("parameters") or {}
    return found if isinstance(found, Mapping) else {}


def _array(one: Mapping[str, Any], behind: memoryview) -> tuple[np.ndarray[Any, Any], memoryview]:
    """A tensor, and what follows of the bytes behind the JSON."""
    name, datatype, shape = str(one["name"]), str(one["datatype"]), one["shape"]
    if datatype not in DTYPES:
        raise BadCall(f"{name} is of the type {datatype}; it can be one of {', '.join(DTYPES)}.")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
        raise BadCall(f"{name} has the shape {shape}, which is no shape.")
    dtype = np.dtype(DTYPES[datatype])
    size = _parameters(one).get("binary_data_size")
    if size is None:
        array = np.asarray(one["data"], dtype)
    else:
        if type(size) is not int or size % dtype.itemsize or not 0 <= size <= len(behind):
            raise BadCall(f"{name} has {size} bytes, and {len(behind):,} came.")
        array, behind = np.frombuffer(behind[:size], dtype), behind[size:]
    if array.size != prod(shape):
        raise BadCall(f"{name} has the shape {shape}, and {array.size:,} values came.")
    return array.reshape(shape), behind


def answer(
    name: str, asked: InferRequest, signature: Signature, outputs: list[np.ndarray[Any, Any]]
) -> tuple[bytes, int | None]:
    """The body, and how many bytes of it are JSON where others follow."""
    found = dict(zip([slot.name for slot in signature.outputs], outputs, strict=True))
    said, behind = [], []
    for output, as_bytes in asked.outputs:
        array = found[output]
        one: dict[str, Any] = {"name": output, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)}
        if as_bytes:
            behind.append(array.tobytes())
            one["parameters"] = {"binary_data_size": array.nbytes}
        else:
            one["data"] = array.ravel().tolist()
        said.append(one)
    record = {"model_name": name, "model_version": "1", "outputs": said} | ({"id": asked.id} if asked.id else {})
    head = json.dumps(record).encode()
    return (head + b"".join(behind), len(head)) if behind else (head, None)
