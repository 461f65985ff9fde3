"""Real sessions on the CPU: batches put together, taken apart, and refused where rows are not independent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from jupyter_gpufit.deploy.providers import CPU, Provider
from jupyter_gpufit.deploy.session import Model, first_line
from jupyter_gpufit.models.made import made
from jupyter_gpufit.models.signature import Signature, Slot
from jupyter_gpufit.models.taking import take
from tests.models.zoo import affine, save

ON_CPU = Provider(names=(CPU,), threads=1)


def model(path: Path) -> Model:
    return Model(str(path), take(path, 4, {}).signature, ON_CPU)


def test_calls_together_answer_as_each_would_alone(tmp_path: Path) -> None:
    w, b = affine(tmp_path / "net.onnx")
    net = model(tmp_path / "net.onnx")
    assert net.batches({}) == (True, "")
    calls = [[made(net.signature.inputs[0], rows, {})] for rows in (1, 3, 7, 2)]
    for call, [answer] in zip(calls, net.run_together(calls, rows=4), strict=True):
        np.testing.assert_allclose(answer, call[0] @ w + b, rtol=1e-5)


def test_more_rows_than_are_run_at_once_are_run_in_parts(tmp_path: Path) -> None:
    w, b = affine(tmp_path / "net.onnx")
    x = made(Slot("x", "float32", ("batch", 4)), 11, {})
    [answer] = model(tmp_path / "net.onnx").run_in_parts([x], rows=4)
    np.testing.assert_allclose(answer, x @ w + b, rtol=1e-5)


def test_a_model_whose_rows_depend_on_each_other_is_never_batched(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"]),
    ]
    save(path, nodes, [("x", ["batch", 4])], [("y", ["batch", 4])])
    together, why = model(path).batches({})
    assert not together and "its answer to a row depends on the rows beside it" in why


def test_a_model_that_sums_its_rows_up_is_never_batched(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, [helper.make_node("ReduceSum", ["x"], ["y"])], [("x", ["batch", 4])], [("y", [1, 1])])
    together, why = model(path).batches({})
    assert not together and "do not have a row for each row" in why


def test_a_tree_as_scikit_learns_converter_writes_it_is_taken_and_batched(tmp_path: Path) -> None:
    path = tmp_path / "tree.onnx"
    tree = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[-1.0, 1.0],
    )
    save(path, [tree], [("x", ["n", 2])], [("y", ["n", 1])], domains={"ai.onnx.ml": 3})
    net = model(path)
    assert net.batches({}) == (True, "")
    [answer] = net.run([np.array([[9, 0], [0, 1]], np.float32)])
    assert answer.tolist() == [[-1.0], [1.0]]


def test_a_batch_of_one_size_is_not_tried(tmp_path: Path) -> None:
    affine(tmp_path / "net.onnx", rows=1)
    assert model(tmp_path / "net.onnx").batches({}) == (False, "")


def test_inputs_that_nobody_gave_suit_their_types() -> None:
    assert made(Slot("x", "float16", ("n", 3)), 2, {}).dtype == np.float16
    assert made(Slot("ids", "int64", ("n", "length")), 4, {"length": 2}).tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert made(Slot("x", "bool", ()), 2, {}).shape == ()
    assert Signature((), ()).inputs == ()


def test_numbers_that_are_none_come_through(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [("x", ["batch", 1])], [("y", ["batch", 1])])
    x = np.array([[np.nan], [np.inf]], np.float32)
    [answer] = model(path).run([x])
    np.testing.assert_array_equal(answer, x)


def test_what_onnx_runtime_says_is_told_without_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    table = {"table": np.zeros((3, 2), np.float32)}
    save(path, nodes, [("x", ["n"])], [("y", ["n", 2])], table, dtype=TensorProto.INT64, answers=TensorProto.FLOAT)
    with pytest.raises(Exception) as found:
        model(path).run([np.array([7], np.int64)])
    assert "[ONNXRuntimeError]" not in first_line(found.value) and "out of" in first_line(found.value)
