"""Taking an ONNX file: checked by ONNX's own checker, tried without its weights, measured without running it.

Its weights are not read: what can be said without them is said, for a model of many GiB in a second. What only a run
can tell (whether it fits, how fast it is) is found out once a device is held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from ..errors import ModelRefused
from .file import check_file
from .signature import Dim, Signature, Slot
from .sizes import alive, graphs_of, width
from .taken import TakenModel

LARGE = 1 << 10  # bytes; smaller constants may decide about shapes, larger ones are weights
OTHER_ENGINES = ("bfloat16", "float8", "float4", "int4", "uint4", "complex", "string")


def take(path: Path, rows: int, sizes: Mapping[str, int]) -> TakenModel:
    """Check the model; `sizes` are of dimensions by their names. Raises ModelRefused in a sentence."""
    check_file(path)
    name = str(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own, of no stable name
        raise ModelRefused(name, f"it is damaged: {_first_line(error)}. Copy or download it again.") from error
    files = _files(model, path)
    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise ModelRefused(name, _checked(str(error), model)) from error
    signature = signature_of(model, name)
    shell = without_weights(model)
    _try(shell, model, name)
    weights = sum(map(_nbytes, _initializers(model.graph)))
    living, unknown, unsaid = alive(shell, signature, rows, sizes)
    return TakenModel(
        signature=signature,
        opset=_opset(model),
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        files=files,
        file=path.stat().st_size,
        weights=weights,
        rows=rows,
        activations=living,
        unknown=unknown,
        open=unsaid,
    )


# Its files --------------------------------------------------------------------------------------------------------


def _files(model: ModelProto, path: Path) -> tuple[str, ...]:
    """The files beside it that hold weights; refused where one is missing, too short, or somewhere else."""
    found: dict[str, int] = {}
    for tensor in _initializers(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            said = {entry.key: entry.value for entry in tensor.external_data}
            end = int(said.get("offset", 0)) + int(said.get("length", 0) or _nbytes(tensor))
            found[said["location"]] = max(found.get(said["location"], 0), end)
    for location, end in found.items():
        place = path.parent / location
        if Path(location).is_absolute() or ".." in Path(location).parts:
            raise ModelRefused(str(path), f"its weights would be read from {location}, outside of its directory.")
        if not place.is_file():
            raise ModelRefused(str(path), f"its weights are in {location}, which is not beside it. Copy both.")
        if place.stat().st_size < end:
            raise ModelRefused(
                str(path),
                f"its weights are in {location}, which has {place.stat().st_size:,} bytes of the {end:,} that it needs."
                " Copy or download it again.",
            )
    return tuple(sorted(found))


def _initializers(graph: GraphProto) -> Iterator[TensorProto]:
    """Its constants, and those of the graphs in its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _initializers(inner)


def _nbytes(tensor: TensorProto) -> int:
    return int(prod(tensor.dims)) * width(tensor.data_type)


# What the checker said, in our words ------------------------------------------------------------------------------


def _checked(text: str, model: ModelProto) -> str:
    if unknown := re.search(r"No Op registered for (\S+) with domain_version of (\d+)", text):
        operator, opset = unknown.groups()
        node = next((node for node in model.graph.node if node.op_type == operator), None)
        return (
            f"it uses the operator {operator}{_named(node)}, which ONNX's operator set {opset} does not have. Export it"
            " again with another opset, or without that operator."
        )
    return f"ONNX's checker refuses it: {_first_line(text)}."


def _named(node: NodeProto | None) -> str:
    return f" (node {node.name!r})" if node is not None and node.name else ""


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).strip().rstrip(".")[:300]


def _opset(model: ModelProto) -> int:
    return next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)


# What goes in and comes out ---------------------------------------------------------------------------------------


def signature_of(model: ModelProto, name: str) -> Signature:
    """Its inputs and outputs; refused where one is no tensor that numpy has."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in constants]
    return Signature(
        tuple(_slot(one, name, "takes") for one in inputs),
        tuple(_slot(one, name, "answers") for one in model.graph.output),
    )


def _slot(info: ValueInfoProto, name: str, does: str) -> Slot:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        hint = " Of scikit-learn: convert_sklearn(..., options={'zipmap': False})." if does == "answers" else ""
        raise ModelRefused(name, f"it {does} {info.name!r}, a {str(kind).split('_')[0]} and no tensor.{hint}")
    tensor = info.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower() if tensor.elem_type else "undefined"
    if kind == "undefined" or kind.startswith(OTHER_ENGINES):
        raise ModelRefused(
            name, f"it {does} {info.name!r} of the type {kind}, which numpy does not have. Cast it inside of the model."
        )
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
    return Slot(info.name, dtype, _shape(tensor))


def _shape(tensor: TypeProto.Tensor) -> tuple[Dim, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)


# Tried without its weights ----------------------------------------------------------------------------------------


def without_weights(model: ModelProto) -> ModelProto:
    """The same model with its large constants as inputs: it has a file of a few KiB, and the same operators."""
    shell = ModelProto()
    shell.CopyFrom(model)
    inputs = {one.name for one in shell.graph.input}
    kept = []
    for tensor in shell.graph.initializer:
        if _nbytes(tensor) < LARGE and tensor.data_location != TensorProto.EXTERNAL:
            kept.append(tensor)
        elif tensor.name not in inputs:
            shell.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    del shell.graph.initializer[:]
    shell.graph.initializer.extend(kept)
    return shell


def _try(shell: ModelProto, model: ModelProto, name: str) -> None:
    """Whether ONNX Runtime knows its operators, here on a CPU. Other trouble shows where the whole model is loaded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what matters is raised
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(shell.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if why := not_supported(str(error), model, f"ONNX Runtime {onnxruntime.__version__}"):
            raise ModelRefused(name, why) from error


def not_supported(text: str, model: ModelProto, runtime: str) -> str:
    """What an error of ONNX Runtime's says of operators, as a sentence; empty: it is about something else."""
    if found := re.search(r"Could not find an implementation for (\w+)\((\d+)\) node with name '([^']*)'", text):
        operator, version, node = found.groups()
        return (
            f"it uses the operator {operator} of opset {version} (node {node!r}), which {runtime} does not have for"
            " these types on a CPU. Export it with another type or opset."
        )
    if found := re.search(r"Opset (\d+) is under development", text):
        return (
            f"it is of opset {found[1]}, and {runtime} has released none of that number. Export it with an older one."
        )
    if found := re.search(r"(\S+) is not a registered function/op|No Op registered for (\S+)", text):
        operator = (found[1] or found[2]).partition("(")[0]  # without its version
        node = next((node for node in model.graph.node if node.op_type == operator.rpartition(":")[2]), None)
        return (
            f"it uses the operator {operator}{_named(node)}, which {runtime} does not know. Operators of one's own"
            " cannot be deployed."
        )
    return ""
