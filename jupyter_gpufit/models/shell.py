"""A model apart from its weights, so that they can be loaded and evicted by copying bytes, while its session stays.

ONNX Runtime cannot change a session's weights, and to make a session anew takes long. So the weights become inputs of
a shell. Before that, what needs to know them is computed once and for all (ONNX Runtime's basic optimisations, which
hold on every device).

    whole.onnx    the model, optimised, its weights in weights.bin
    shell.onnx    the same without weights: they are inputs, after its own
    weights.bin   the bytes of all
    weights.json  where which weight lies in there
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..system.foreign import known, parsed_record

WHOLE, SHELL, BYTES, INDEX = "whole.onnx", "shell.onnx", "weights.bin", "weights.json"
SMALL = 1 << 10  # bytes; what is smaller may decide about shapes, and stays inside


@dataclass(frozen=True)
class Weight:
    """One tensor in weights.bin."""

    name: str
    dtype: str  # numpy's name
    shape: tuple[int, ...]
    at: int  # byte
    length: int  # bytes


def read_weights(folder: Path) -> list[Weight]:
    """Those of a shell, as its index has them."""
    record = parsed_record((folder / INDEX).read_text())
    return [Weight(**{**known(Weight, one), "shape": tuple(one["shape"])}) for one in record["weights"]]


def take_weights_out(path: Path, folder: Path) -> None:
    """Write the four files; `path` is a model that was taken. Raises what ONNX Runtime raises."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / WHOLE)
    entry = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{entry}_file_name", BYTES)
    options.add_session_config_entry(f"{entry}_min_size_in_bytes", str(SMALL))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (folder / BYTES).touch()  # a model may have none
    shell = onnx.load(folder / WHOLE, load_external_data=False)
    inside, weights = [], []
    for tensor in shell.graph.initializer:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            inside.append(tensor)
        elif dtype.kind not in "biuf" or dtype.isbuiltin != 1:  # no array of numpy's own can bring it
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            inside.append(tensor)
        else:
            said = {entry.key: entry.value for entry in tensor.external_data}
            weights.append(
                Weight(tensor.name, dtype.name, tuple(tensor.dims), int(said.get("offset", 0)), int(said["length"]))
            )
            shell.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    del shell.graph.initializer[:]
    shell.graph.initializer.extend(inside)
    onnx.save(shell, folder / SHELL)
    (folder / INDEX).write_text(json.dumps({"weights": [asdict(one) for one in weights]}))
