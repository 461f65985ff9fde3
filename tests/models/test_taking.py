"""Taking real files, whole and broken, with ONNX's own checker and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from jupyter_gpufit.errors import ModelRefused
from jupyter_gpufit.models.asking import take_apart
from jupyter_gpufit.models.taking import take
from tests.models.zoo import affine, save

ROWS = 8


def refused(path: Path) -> str:
    with pytest.raises(ModelRefused) as found:
        take(path, ROWS, {})
    return found.value.why


def test_a_model_says_what_it_takes_and_what_lives_at_once(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path, features=100, answers=10)
    taken = take(path, ROWS, {})
    assert taken.signature.words == "x: float32 [batch, 100] -> y: float32 [batch, 10]"
    assert taken.weights == 4 * (100 * 10 + 10) and taken.opset == 20 and not taken.files
    assert taken.activations == 4 * ROWS * (100 + 10) and not taken.open


def test_weights_beside_the_file_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path, features=100, answers=10, external=True)
    taken = take(path, ROWS, {})
    assert taken.files == ("net.onnx.data",) and taken.weights == 4 * (100 * 10 + 10) > taken.file


def test_weights_that_are_missing_or_cut_off_are_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path, external=True)
    data = tmp_path / "net.onnx.data"
    data.write_bytes(data.read_bytes()[:-1])
    assert "net.onnx.data, which has" in refused(path) and "Copy or download" in refused(path)
    data.unlink()
    assert "net.onnx.data, which is not beside it" in refused(path)


def test_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path, external=True)
    text = path.read_bytes()
    path.write_bytes(text.replace(b"net.onnx.data", b"../../etc/pas"))
    assert "outside of its directory" in refused(path)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, cut: float) -> None:
    path = tmp_path / "net.onnx"
    affine(path, features=100)
    path.write_bytes(path.read_bytes()[: int(cut * path.stat().st_size)])
    assert "not an ONNX file" in refused(path)


def test_bytes_turned_over_are_refused_and_crash_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path)
    whole = path.read_bytes()
    answers = set()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            take(path, ROWS, {})
            answers.add("taken")  # a weight, a name: it is another model
        except ModelRefused:
            answers.add("refused")
    assert "refused" in answers


def test_an_operator_that_onnx_has_not_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, [helper.make_node("Frobnicate", ["x"], ["y"], name="n7")], [("x", [1])], [("y", [1])])
    assert refused(path).startswith(
        "it uses the operator Frobnicate (node 'n7'), which ONNX's operator set 20 does not"
    )


def test_an_operator_of_ones_own_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="n7", domain="com.example")
    save(path, [node], [("x", [1])], [("y", [1])], domains={"com.example": 1})
    assert "the operator com.example:Frobnicate (node 'n7'), which ONNX Runtime" in refused(path)


def test_an_operator_that_onnx_runtime_has_not_for_a_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        helper.make_node("Erf", ["h"], ["i"], name="n7"),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    save(path, nodes, [("x", [1])], [("y", [1])])
    assert refused(path).startswith("it uses the operator Erf of opset 13 (node 'n7'), which ONNX Runtime")


def test_a_type_that_numpy_has_not_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [("x", [1])], [("y", [1])], dtype=TensorProto.BFLOAT16)
    assert "it takes 'x' of the type bfloat16, which numpy does not have" in refused(path)


def test_a_dimension_of_unknown_size_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, [helper.make_node("Relu", ["x"], ["y"])], [("x", ["batch", "length"])], [("y", ["batch", "length"])])
    assert take(path, ROWS, {}).open == ("length",) and take(path, ROWS, {}).activations is None
    assert take(path, ROWS, {"length": 50}).activations == 4 * 2 * ROWS * 50


def test_branches_count_with_the_larger_one(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"

    def branch(name: str, times: int) -> object:
        nodes = [helper.make_node("Concat", ["x"] * times, [f"{name}h"], axis=0)]
        nodes += [helper.make_node("ReduceSum", [f"{name}h"], [f"{name}y"])]
        out = helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, [1, 1])
        return helper.make_graph(nodes, name, [], [out])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["which"], to=TensorProto.BOOL),
        helper.make_node("If", ["which"], ["y"], then_branch=branch("a", 2), else_branch=branch("b", 9)),
    ]
    save(path, nodes, [("x", [1, 1000])], [("y", [1, 1])])
    alive = take(path, ROWS, {}).activations
    assert alive is not None and 4 * 10_000 <= alive < 4 * 10_100


def test_onnxs_own_models_are_taken_or_the_operator_is_named() -> None:
    """Those that the onnx package brings as files; of opset 6, of which ONNX Runtime runs some operators only."""
    from onnx.backend.test.loader import DATA_DIR

    paths = sorted(Path(DATA_DIR).glob("pytorch-converted/*/model.onnx"))[::10]
    answers = []
    for path in paths:
        try:
            answers.append(take(path, ROWS, {}).signature.words)
        except ModelRefused as error:
            answers.append(error.why)
    refused = [words for words in answers if "->" not in words]
    assert len(refused) < len(answers) / 2 and all("it uses the operator" in words for words in refused)


@pytest.mark.slow
def test_a_model_is_taken_by_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    affine(path)
    assert take_apart([path, path], ROWS, {}) == [take(path, ROWS, {})] * 2
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"\x08\x0a\x3a\x03abc")
    with pytest.raises(ModelRefused, match="damaged.onnx cannot be deployed: it is damaged"):
        take_apart([path, damaged], ROWS, {})
