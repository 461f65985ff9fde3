"""A torch module as an ONNX file, with a batch of any size, and compared with the module on the example."""

from __future__ import annotations

import copy
import io
import linecache
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import ExportFailed
from ..system.unheard import unheard
from ..units import format_duration
from .packages import check_packages, too_old

LARGEST_BATCH = 1 << 20
TOLERANCE = 1e-2  # of the largest value; beyond, the export computes something else
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """How it went."""

    seconds: float
    difference: float  # the largest, of all outputs on the example
    largest: float  # absolute value among the module's own outputs
    any_batch: bool

    @property
    def words(self) -> str:
        batch = "batches of any size" if self.any_batch else "batches of the example's size only"
        return (
            f"Exported in {format_duration(self.seconds)}, for {batch}. On the example it differs from the module by"
            f" {self.difference:.1e} at most, where the largest value is {self.largest:.2g}."
        )


def export(module: object, example: object, path: Path, name: str) -> Exported:
    """Write the module to `path`; raises ExportFailed with the operator and the line, as far as they are known."""
    check_packages(exports=True)
    if not isinstance(module, torch.nn.Module):
        raise ExportFailed(name, f"it is a {type(module).__name__}, not a torch.nn.Module.")
    began = time.monotonic()
    arguments = _on_cpu(_arguments(example, name))
    with _ready(module) as ready, torch.no_grad():
        traced = _two_rows(arguments)
        _write(ready, arguments if traced is None else traced, path, name, any_batch=traced is not None)
        difference, largest = _compared(ready, arguments, path, name)
        any_batch = traced is not None and _takes(ready, _rows(arguments, 3), path, name)
    if not difference <= TOLERANCE * max(1.0, largest):
        raise ExportFailed(
            name,
            f"on the example, the exported model differs from it by {difference:.2g}, where the largest value is"
            f" {largest:.2g}. What it draws at random, or changes of itself, does not go into an ONNX model.",
        )
    return Exported(seconds=time.monotonic() - began, difference=difference, largest=largest, any_batch=any_batch)


# The example ------------------------------------------------------------------------------------------------------


def _arguments(example: object, name: str) -> Arguments:
    """What the module is called with: one tensor, a tuple of them, or a dict of them by their names."""
    if isinstance(example, Mapping):
        return (), dict(example)
    given = tuple(example) if isinstance(example, Sequence) and not isinstance(example, str) else (example,)
    try:
        return tuple(one if isinstance(one, torch.Tensor) else torch.as_tensor(one) for one in given), {}
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExportFailed(
            name, f"its example is a {type(example).__name__}; give a tensor, a tuple of tensors, or a dict of them."
        ) from error


def _on_cpu(arguments: Arguments) -> Arguments:
    return _each(arguments, lambda one: one.detach().cpu())


def _each(arguments: Arguments, change: Any) -> Arguments:
    given, by_name = arguments

    def changed(one: Any) -> Any:
        return change(one) if isinstance(one, torch.Tensor) else one

    return tuple(map(changed, given)), {key: changed(value) for key, value in by_name.items()}


def _tensors(arguments: Arguments) -> list[torch.Tensor]:
    given, by_name = arguments
    return [one for one in (*given, *by_name.values()) if isinstance(one, torch.Tensor)]


def _rows(arguments: Arguments, count: int) -> Arguments:
    """The same with another number of rows: the example's own, again and again."""

    def repeated(tensor: torch.Tensor) -> torch.Tensor:
        times = -(-count // tensor.shape[0])
        return torch.cat([tensor] * times)[:count]

    return _each(arguments, repeated)


def _two_rows(arguments: Arguments) -> Arguments | None:
    """What to trace with for batches of any size: of one row, torch would conclude that there is always one.

    None: the inputs do not begin with one and the same dimension.
    """
    first = {tensor.shape[0] if tensor.ndim else 0 for tensor in _tensors(arguments)}
    if len(first) != 1 or 0 in first:
        return None
    return arguments if first.pop() > 1 else _rows(arguments, 2)


# The export -------------------------------------------------------------------------------------------------------


@contextmanager
def _ready(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module as it is used, not trained, on the CPU; its own modes stay what they were."""
    here = module
    if any(tensor.device.type != "cpu" for tensor in (*module.parameters(), *module.buffers())):
        here = copy.deepcopy(module).cpu()
    modes = [(one, one.training) for one in here.modules()]
    here.eval()
    try:
        yield here
    finally:
        for one, training in modes:
            one.training = training


def _write(module: torch.nn.Module, arguments: Arguments, path: Path, name: str, *, any_batch: bool) -> None:
    given, by_name = arguments
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)

    def shape(one: Any) -> Any:
        return {0: batch} if any_batch and isinstance(one, torch.Tensor) else None

    shapes: Any = {key: shape(one) for key, one in by_name.items()} if by_name else tuple(map(shape, given))
    try:
        with _quiet():
            program = torch.onnx.export(
                module, given, kwargs=by_name, dynamo=True, dynamic_shapes=shapes, verbose=False
            )
            assert program is not None
            program.save(path)
    except Exception as error:  # torch's own, of many kinds
        if any(isinstance(one, ImportError) and "onnxscript" in (one.name or "") for one in _chain(error)):
            raise too_old("onnxscript") from error
        raise ExportFailed(name, _why(error, lambda: torch.export.export(module, given, by_name))) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter prints for its own developers; what matters is raised."""
    logger = logging.getLogger("torch")
    before = logger.level
    unread = io.StringIO()
    with unheard(), redirect_stdout(unread), redirect_stderr(unread):
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(before)


def _why(error: BaseException, again: Callable[[], torch.export.ExportedProgram]) -> str:
    """Operator and line, out of what torch says; `again` traces the module once more, to find the line."""
    chain = list(_chain(error))
    text = "\n".join(str(one) for one in chain)
    if operator := re.search(r"No ONNX function found for <OpOverload\(op='([^']+)'", text):
        return f"there is no ONNX operator for {operator[1]}{_line([], _trace_of(operator[1], again))}."
    where = _line(chain, text)
    if "GuardOnDataDependent" in text or any("DataDependent" in type(one).__name__ for one in chain):
        return (
            f"which way it goes depends on a tensor's value{where}, and an ONNX model has one way for all. torch.where"
            " takes the place of such an if."
        )
    last = str(chain[-1]).strip().splitlines() or [type(chain[-1]).__name__]
    return f"{type(chain[-1]).__name__}: {last[0].strip()[:300]}{where}"


def _trace_of(operator: str, again: Callable[[], torch.export.ExportedProgram]) -> str:
    """Where the module calls the operator, or what becomes it."""
    with suppress(Exception), _quiet():
        traced = again()
        for program in (traced, traced.run_decompositions()):
            for node in program.graph.nodes:
                if str(node.target).startswith(operator):
                    return node.stack_trace or ""
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _line(chain: Sequence[BaseException], text: str) -> str:
    """ " (line 7 of net.py, in forward: `if x.sum() > 0:`)" """
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', text)
    frames += re.findall(r"File: (\S+):(\d+) in (\w+)", text)
    for one in chain:
        frames += [(frame.filename, str(frame.lineno), frame.name) for frame in traceback.extract_tb(one.__traceback__)]
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<")
    for file, line, function in frames:
        if not file.startswith(ours) and "onnx" not in Path(file).parts and "onnxscript" not in Path(file).parts:
            code = linecache.getline(file, int(line)).strip()
            short = Path(file).name if not file.startswith("/tmp/ipykernel") else "the notebook"
            return f" (line {line} of {short}, in {function}(): `{code}`)" if code else f" (line {line} of {short})"
    return ""


# The comparison ---------------------------------------------------------------------------------------------------


def _compared(module: torch.nn.Module, arguments: Arguments, path: Path, name: str) -> tuple[float, float]:
    """The largest difference of the two, and the largest value of the module's own."""
    given, by_name = arguments
    theirs = _flat(module(*given, **by_name))
    ours = _run(arguments, path, name)
    if len(ours) != len(theirs):
        raise ExportFailed(name, f"it answers {len(theirs)} tensors, and the exported model {len(ours)}.")
    difference = largest = 0.0
    for one, other in zip(theirs, ours, strict=True):
        if tuple(one.shape) != other.shape:
            raise ExportFailed(name, f"it answers the shape {tuple(one.shape)}, and the exported model {other.shape}.")
        own, exported = one.detach().double(), torch.from_numpy(other).double()
        if own.numel():
            both_nan = own.isnan() & exported.isnan()
            apart = torch.where(both_nan | (own == exported), torch.zeros_like(own), (own - exported).abs())
            difference = max(difference, float(apart.max()))
            largest = max(largest, float(own.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return difference, largest


def _takes(module: torch.nn.Module, arguments: Arguments, path: Path, name: str) -> bool:
    """Whether another number of rows does as well."""
    try:
        difference, largest = _compared(module, arguments, path, name)
    except Exception:  # of the module's, of the exported model's: either way this number of rows will not do
        return False
    return difference <= TOLERANCE * max(1.0, largest)


def _run(arguments: Arguments, path: Path, name: str) -> list[Any]:
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        given = [tensor.numpy() for tensor in _tensors(arguments)]
        return list(session.run(None, dict(zip(names, given, strict=True))))
    except Exception as error:  # ONNX Runtime's own
        raise ExportFailed(name, f"ONNX Runtime cannot run what was exported: {str(error)[:300]}") from error


def _flat(answer: Any) -> list[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        return [answer]
    if isinstance(answer, Mapping):
        return [one for value in answer.values() for one in _flat(value)]
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return [one for value in answer for one in _flat(value)]
    return []
