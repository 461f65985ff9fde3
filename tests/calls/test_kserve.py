"""Requests of the Open Inference Protocol, well made and badly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.calls import kserve
from jupyter_gpufit.errors import BadCall
from jupyter_gpufit.models.signature import Signature, Slot

SIGNATURE = Signature((Slot("x", "float32", ("batch", 2)),), (Slot("y", "float16", ("batch", 1)),))
X = {"name": "x", "datatype": "FP32", "shape": [1, 2]}


def body(**changes: Any) -> bytes:
    return json.dumps({"inputs": [{**X, "data": [1.5, 2], **changes}]}).encode()


@pytest.mark.parametrize("data", [[1.5, 2.0], [[1.5, 2.0]]])
def test_numbers_come_flat_or_in_rows(data: object) -> None:
    asked = kserve.read(SIGNATURE, body(data=data), None)
    assert asked.inputs["x"].tolist() == [[1.5, 2.0]] and asked.inputs["x"].dtype == np.float32
    assert asked.outputs == (("y", False),)


def test_bytes_come_behind_the_json_and_go_back_so() -> None:
    head = json.dumps(
        {
            "id": "7",
            "inputs": [{**X, "parameters": {"binary_data_size": 8}}],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    asked = kserve.read(SIGNATURE, head + np.array([1.5, 2], np.float32).tobytes(), len(head))
    assert asked.inputs["x"].tolist() == [[1.5, 2.0]]
    said, length = kserve.answer("net", asked, SIGNATURE, [np.array([[3]], np.float16)])
    assert length is not None and said[length:] == np.array([3], np.float16).tobytes()
    record = json.loads(said[:length])
    assert record["id"] == "7" and record["outputs"][0]["parameters"] == {"binary_data_size": 2}


def test_without_a_wish_the_answer_is_json() -> None:
    asked = kserve.read(SIGNATURE, body(), None)
    said, length = kserve.answer("net", asked, SIGNATURE, [np.array([[3]], np.float16)])
    wanted = [{"name": "y", "datatype": "FP16", "shape": [1, 1], "data": [3.0]}]
    assert length is None and json.loads(said)["outputs"] == wanted


def test_a_model_says_what_it_takes() -> None:
    assert kserve.about("net", SIGNATURE)["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]


@pytest.mark.parametrize(
    ("request_body", "header", "why"),
    [
        (b"junk", None, "The request cannot be read"),
        (b"[]", None, "The request cannot be read"),
        (b'{"inputs": 3}', None, "The request cannot be read"),
        (body(datatype="BYTES"), None, "x is of the type BYTES; it can be one of BOOL"),
        (body(shape=[3, 2]), None, "x has the shape [3, 2], and 2 values came"),
        (body(shape=[-1, 2]), None, "x has the shape [-1, 2], which is no shape"),
        (body(shape=[1 << 39, 1 << 39]), None, "2 values came"),
        (body(data=["a"]), None, "The request cannot be read"),
        (body(parameters={"binary_data_size": 8}), None, "x has 8 bytes, and 0 came"),
        (body(parameters={"binary_data_size": -8}), None, "x has -8 bytes"),
        (
            json.dumps({"inputs": [], "outputs": [{"name": "z"}]}).encode(),
            None,
            "no output 'z'; it has y",
        ),
    ],
    ids=range(11),
)
def test_anything_else_is_refused_in_a_sentence(request_body: bytes, header: int | None, why: str) -> None:
    with pytest.raises(BadCall) as found:
        kserve.read(SIGNATURE, request_body, header)
    assert why in str(found.value)
