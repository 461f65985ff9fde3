"""Whether what somebody sent is a call that the model takes; it may be anybody's nonsense."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod

import numpy as np

from ..calls.protocol import Call
from ..calls.region import can_shrink, may_be_written
from ..errors import BadCall
from ..models.signature import Signature, check_call


def checked(packet: bytes, signatures: Sequence[Signature], region: int) -> Call:
    """The call; `region` is the descriptor of its memory, -1 for none. Raises BadCall, or what `Call.decode` does."""
    call = Call.decode(packet)
    if call.model >= len(signatures):
        raise BadCall(f"There are {len(signatures)} models here, and none of the number {call.model}.")
    signature = signatures[call.model]
    slots = signature.inputs
    if len(call.inputs) != len(slots):
        raise BadCall(f"{len(call.inputs)} inputs came, and the model takes {len(slots)}.")
    found = {slot.name: (one.dtype, one.shape) for slot, one in zip(slots, call.inputs, strict=True)}
    check_call(signature, found)
    if region < 0 or can_shrink(region):
        raise BadCall("There is no memory with the call that stays as large as it is.")
    if not may_be_written(region):
        raise BadCall("The memory that came with the call cannot be written, and its answers belong there.")
    size = os.fstat(region).st_size
    for one in call.inputs:
        each = np.dtype(one.dtype).itemsize
        if one.at % each or one.at + prod(one.shape) * each > size:
            raise BadCall("An input lies outside of the memory that came with the call.")
    return call
