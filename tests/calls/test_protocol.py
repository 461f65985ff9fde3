"""What is said is read without trust."""

from __future__ import annotations

import json

import pytest

from jupyter_gpufit.calls.protocol import Call, CallReply, Lying, encode, lay_out


def test_a_call_and_a_reply_come_through() -> None:
    call = Call((Lying("float32", (2, 3), 64), Lying("int64", (), 128)), 192)
    assert Call.decode(encode(call)) == call
    reply = CallReply(outputs=(Lying("float32", (2,), 192),))
    assert CallReply.decode(encode(reply)) == reply
    assert CallReply.decode(encode(CallReply(waiting=3, seconds=0.5))) == CallReply(waiting=3, seconds=0.5)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"protocol": 2, "inputs": [], "out": 0},
        {"protocol": 1, "inputs": {}, "out": 0},
        {"protocol": 1, "inputs": [], "out": -1},
        {"protocol": 1, "inputs": [], "out": True},
        {"protocol": 1, "inputs": [1], "out": 0},
        {"protocol": 1, "inputs": [["float32", [-1], 0]], "out": 0},
        {"protocol": 1, "inputs": [["float32", [1 << 60], 0]], "out": 0},
        {"protocol": 1, "inputs": [["float32", [1] * 33, 0]], "out": 0},
        {"protocol": 1, "inputs": [[7, [1], 0]], "out": 0},
        {"protocol": 1, "inputs": [["float32", 1, 0]], "out": 0},
    ],
    ids=range(11),
)
def test_anything_else_is_no_call(record: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Call.decode(json.dumps(record).encode())


def test_tensors_lie_one_after_the_other_where_a_processor_likes_them() -> None:
    assert lay_out([3, 64, 1]) == ([0, 64, 128], 192)
    assert lay_out([1], 65) == ([128], 192)
    assert lay_out([]) == ([], 0)
