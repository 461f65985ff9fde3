"""Small models for the tests, made by hand: no network, no weights of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
IR = 10  # what ONNX Runtime has known for long


def affine(
    path: Path, *, features: int = 4, answers: int = 2, rows: int | str = "batch", external: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """y = x @ w + b, and what w and b are."""
    random = np.random.default_rng(0)
    w = random.standard_normal((features, answers), dtype=np.float32)
    b = random.standard_normal(answers, dtype=np.float32)
    save(
        path,
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        [("x", [rows, features])],
        [("y", [rows, answers])],
        {"w": w, "b": b},
        external=external,
    )
    return w, b


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, Sequence[int | str]]],
    outputs: Sequence[tuple[str, Sequence[int | str]]],
    constants: dict[str, np.ndarray] | None = None,
    *,
    dtype: int = TensorProto.FLOAT,
    answers: int | None = None,
    opset: int = OPSET,
    external: bool = False,
    domains: dict[str, int] | None = None,
) -> None:
    """A model of these nodes."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, dtype, list(shape)) for name, shape in inputs],
        [helper.make_tensor_value_info(name, answers or dtype, list(shape)) for name, shape in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    sets = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    model = helper.make_model(graph, opset_imports=sets, ir_version=IR)
    if external:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    else:
        onnx.save(model, path)
