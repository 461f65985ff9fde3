"""How large the values of an ONNX graph are, with its dimensions known, and how much lives at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from .liveness import GraphStep, peak
from .signature import Signature


@dataclass
class _Sizes:
    """The bytes of each value, and what could not be known."""

    bytes: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)  # operators


def alive(
    shell: ModelProto, signature: Signature, rows: int, sizes: Mapping[str, int]
) -> tuple[int | None, tuple[str, ...], tuple[str, ...]]:
    """The bytes alive at once, the operators of which that is not known, and the dimensions that nobody said."""
    said = dict(sizes)
    if signature.may_batch:
        said[str(signature.inputs[0].shape[0] if signature.inputs[0].shape else "")] = rows
    unsaid = _say_sizes(shell, {slot.name for slot in signature.inputs}, said, batches=signature.may_batch, rows=rows)
    if unsaid:
        return None, (), tuple(unsaid)
    inferred = onnx.shape_inference.infer_shapes(shell, data_prop=True)
    given = {slot.name for slot in signature.inputs}
    found = _Sizes()
    for info in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        if (size := _value_bytes(info)) is not None:
            found.bytes[info.name] = size
    steps = _steps(inferred.graph, found)
    most = peak(steps, found.bytes, given, {one.name for one in inferred.graph.output})
    return most.bytes, tuple(sorted(found.unknown)), ()


def _say_sizes(model: ModelProto, inputs: set[str], said: Mapping[str, int], *, batches: bool, rows: int) -> list[str]:
    """Put sizes in the place of names, so that shapes can be inferred as numbers; which names have none."""
    unsaid: dict[str, None] = {}
    for info in model.graph.input:
        if info.name not in inputs:
            continue
        if not info.type.tensor_type.HasField("shape"):
            unsaid[f"the shape of {info.name}"] = None
            continue
        for at, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                continue
            size = rows if at == 0 and batches else said.get(dim.dim_param)
            if size is None:
                unsaid[dim.dim_param or f"dimension {at} of {info.name}"] = None
            else:
                dim.dim_value = size
    del model.graph.value_info[:]
    for info in model.graph.output:  # what stands there is told in names; it is inferred again
        info.type.tensor_type.ClearField("shape")
    return list(unsaid)


def _value_bytes(info: ValueInfoProto) -> int | None:
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return None
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    if None in dims or not tensor.elem_type:
        return None
    return int(prod(dim for dim in dims if dim is not None)) * width(tensor.elem_type)


def _steps(graph: GraphProto, found: _Sizes) -> list[GraphStep]:
    """Its nodes; a value of unknown size is taken for as large as the largest that its node reads."""
    steps = []
    for node in graph.node:
        for name in filter(None, node.output):
            if name not in found.bytes:
                if node.op_type != "Constant":
                    found.unknown.add(node.op_type)
                found.bytes[name] = max((found.bytes.get(read, 0) for read in node.input), default=0)
        inside = max((_inside(inner, found) for inner in graphs_of(node)), default=0)
        reads = {*filter(None, node.input), *(name for inner in graphs_of(node) for name in _outer(inner))}
        steps.append(GraphStep(tuple(sorted(reads)), tuple(filter(None, node.output)), inside))
    return steps


def _inside(graph: GraphProto, found: _Sizes) -> int:
    """What a loop's body or a branch takes at most beside what is outside of it."""
    own = _Sizes(dict(found.bytes), found.unknown)
    for info in (*graph.value_info, *graph.input, *graph.output):
        if (size := _value_bytes(info)) is not None:
            own.bytes[info.name] = size
    steps = _steps(graph, own)
    return peak(steps, own.bytes, (), {one.name for one in graph.output}).bytes


def _outer(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from filter(None, node.input)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node: the branches of an If, the body of a Loop."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def width(data_type: int) -> int:
    """Bytes of one value; of types below a byte, a whole one; of texts, what a pointer takes."""
    return 8 if data_type == TensorProto.STRING else int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
