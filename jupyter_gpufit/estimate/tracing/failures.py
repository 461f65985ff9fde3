"""What a traced cell's exception means: an error of the user's, told as a GPU would tell it, or a limit of ours."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import torch
from torch._subclasses import fake_tensor

from ...cuda.stand_in.device import STAND_IN
from .processes import Waits

CELL = "<cell>"  # what tracebacks call it
_LONGEST = 80  # characters of its line

_PACKAGE = Path(__file__).resolve().parents[2]  # its stand-in for cuda, and what notes modules as they are called, too
_TORCH = Path(torch.__file__).resolve().parent
_NOT_THE_USERS = tuple(
    str(path)
    for path in (
        _PACKAGE,
        *(_TORCH / name for name in ("_subclasses", "_prims_common", "_decomp", "_refs", "_library", "_dynamo")),
        *(
            _TORCH / name
            for name in ("_ops.py", "_compile.py", "_meta_registrations.py", "utils/_stats.py", "utils/_pytree.py")
        ),
        _TORCH / "__init__.py",
    )
)


def not_the_users(filename: str) -> bool:
    """Whether a frame of this file is ours, or one of torch's that only stands between."""
    return filename.startswith(_NOT_THE_USERS) or filename.startswith("<frozen")


_OURS = (
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.DataDependentOutputException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
)
_NO_NUMPY = ".numpy() is not supported for tensor subclasses."
_NO_NUMPY_OF_CUDA = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
)
_TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, "  # and which
_TWO_DEVICES_FAKED = re.compile(r"Unhandled FakeTensor Device Propagation for \S+, found two different devices ")
_OPERATOR = re.compile(r"aten[.:]+\w+(?:\.\w+)?")


def limit_of_ours(error: BaseException) -> str:
    """Why the cell cannot be traced though it may well run; empty for an error of the user's."""
    if isinstance(error, Waits):
        return f"It waits for another process ({error}), and a trial run has no others."
    text = in_a_line(error)
    no_kernel = isinstance(error, NotImplementedError) and (STAND_IN in text or "PrivateUse1" in text)
    if not (isinstance(error, _OURS) or no_kernel):
        return ""
    if isinstance(error, (fake_tensor.DynamicOutputShapeException, fake_tensor.DataDependentOutputException)):
        return f"What {_operator(error)} makes depends on values, and without a GPU there are none."
    return f"{_operator(error)} cannot be traced without a GPU."


def _operator(error: BaseException) -> str:
    found = _OPERATOR.search(str(error))
    if found is not None:
        return found[0].replace("::", ".")
    func = getattr(error, "func", None)  # one of a library's own
    return str(func).removesuffix(".default") if func is not None else type(error).__name__


def as_the_user_sees_it(error: BaseException) -> str:
    """The traceback, less our frames and those of fake tensors, in the words of a GPU."""
    try:
        told = traceback.TracebackException.from_exception(error)
    except Exception:  # one of the user's own, whose words are code
        return in_a_line(error)
    one: traceback.TracebackException | None = told
    while one is not None:
        kept = [frame for frame in one.stack if not frame.filename.startswith(_NOT_THE_USERS)]
        one.stack = traceback.StackSummary.from_list(kept)
        one = one.__cause__ or one.__context__
    return _in_words_of_a_gpu("".join(told.format()).strip())


def in_a_line(error: BaseException) -> str:
    """Its kind and its message."""
    try:
        said = " ".join(str(error).split())
    except Exception:
        said = ""
    said = _TWO_DEVICES_FAKED.sub(_TWO_DEVICES, said)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _in_words_of_a_gpu(text: str) -> str:
    text = re.sub(rf"\b{STAND_IN}(\w+)Type\b", r"torch.cuda.\1Tensor", text)
    text = text.replace("torch._subclasses.fake_tensor.FakeTensorDeviceMismatchError", "RuntimeError")
    text = _TWO_DEVICES_FAKED.sub(_TWO_DEVICES, text)  # as older versions of torch say it
    text = text.replace(f"RuntimeError: {_NO_NUMPY}", f"TypeError: {_NO_NUMPY_OF_CUDA}")
    return text.replace(STAND_IN, "cuda")


def line_of(error: BaseException) -> str:
    """The cell's line that raised."""
    if isinstance(error, SyntaxError) and error.filename == CELL:
        return f"line {error.lineno} of the cell: {_short((error.text or '').strip())}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == CELL]
    return f"line {frames[-1].lineno} of the cell: {_short(frames[-1].line or '')}" if frames else ""


def _short(line: str) -> str:
    """It stands in the middle of a sentence."""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST].rstrip()} …"
