"""What ONNX Runtime is told for each device, and what is said where it does something else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.deploy.providers import Provider, provider_for, threads_for
from jupyter_gpufit.deploy.session import Model
from jupyter_gpufit.deploy.shells import ShellModel
from jupyter_gpufit.devices.device import Device, Kind
from jupyter_gpufit.errors import NoRuntime
from jupyter_gpufit.models.signature import Signature, Slot
from jupyter_gpufit.units import GiB, MiB

SIGNATURE = Signature((Slot("x", "float32", ("batch", 2)),), (Slot("y", "float32", ("batch", 2)),))


def device(kind: Kind) -> Device:
    return Device(uuid="u", label="0", name="n", index=0, kind=kind, total=80 * GiB, free=80 * GiB)


class Recorded:
    """An ONNX Runtime and its session: it notes what it is told, and says where it runs."""

    def __init__(self, running: list[str]) -> None:
        self.running = running
        self.made: list[tuple[str, Provider]] = []
        self.told: list[tuple[object, ...]] = []

    def session(self, path: str, provider: Provider, *, shared: bool = False) -> Recorded:
        self.made.append((path, provider))
        return self

    def on_device(self, array: np.ndarray[Any, Any], provider: Provider) -> object:
        self.told.append(("copy", array.shape, provider.names[0]))
        return array.copy()

    def get_providers(self) -> list[str]:
        return self.running

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
        return [input_feed["x"]]

    def io_binding(self) -> Recorded:
        return self

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray[Any, Any]) -> None:
        self.told.append(("input", name))
        self.x = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        self.told.append(("weight", name))

    def bind_output(self, name: str, device_type: str = "cpu") -> None:
        self.told.append(("output", name, device_type))

    def clear_binding_inputs(self) -> None:
        self.told.append(("no inputs",))

    def clear_binding_outputs(self) -> None:
        self.told.append(("no outputs",))

    def run_with_iobinding(self, iobinding: object) -> None:
        self.told.append(("run",))

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        return [self.x]


def test_a_gpus_session_keeps_within_its_claim() -> None:
    provider = provider_for(device("gpu"), 4 * GiB, 512 * MiB, 1)
    cuda = Recorded(["CUDAExecutionProvider", "CPUExecutionProvider"])
    Model("net.onnx", SIGNATURE, provider, cuda)
    [(path, told)] = cuda.made
    assert path == "net.onnx" and told.names == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert told.options == {
        "device_id": "0",
        "gpu_mem_limit": str(4 * GiB - 512 * MiB),
        "arena_extend_strategy": "kSameAsRequested",
        "cudnn_conv_algo_search": "HEURISTIC",
    }


def test_on_a_gpu_inputs_and_outputs_are_bound_anew_for_each_run_and_weights_once_for_each_load(
    tmp_path: Path,
) -> None:
    cuda = Recorded(["CUDAExecutionProvider", "CPUExecutionProvider"])
    provider, x = provider_for(device("gpu"), 4 * GiB, 512 * MiB, 1), np.zeros((1, 2), np.float32)
    run = [("input", "x"), ("no outputs",), ("output", "y", "cpu"), ("run",)]
    np.testing.assert_array_equal(Model("net.onnx", SIGNATURE, provider, cuda).run([x])[0], x)
    assert cuda.told == run
    weight = {"name": "w", "dtype": "float32", "shape": [2, 3], "at": 0, "length": 24}
    (tmp_path / "weights.json").write_text(json.dumps({"weights": [weight]}))
    (tmp_path / "weights.bin").write_bytes(bytes(24))
    shell = ShellModel(tmp_path, SIGNATURE, provider, cuda)
    cuda.told.clear()
    shell.load()
    shell.run([x])
    shell.run([x])
    shell.evict()
    copied = [("copy", (2, 3), "CUDAExecutionProvider"), ("weight", "w")]
    assert cuda.told == [*copied, *run, *run, ("no inputs",)]


def test_a_silent_fall_back_to_the_cpu_is_an_error_that_says_what_to_install() -> None:
    provider = provider_for(device("gpu"), 4 * GiB, 512 * MiB, 1)
    with pytest.raises(NoRuntime, match="would run on CPUExecutionProvider instead.*onnxruntime-gpu.cuda,cudnn"):
        Model("net.onnx", SIGNATURE, provider, Recorded(["CPUExecutionProvider"]))


def test_a_claim_below_a_context_leaves_the_arena_something() -> None:
    assert provider_for(device("mig"), 600 * MiB, 512 * MiB, 1).options["gpu_mem_limit"] == str(300 * MiB)


def test_a_slot_runs_on_the_cpu_and_nothing_else() -> None:
    provider = provider_for(device("slot"), GiB, 0, 3)
    assert provider == Provider(names=("CPUExecutionProvider",), threads=3)
    Model("net.onnx", SIGNATURE, provider, Recorded(["CPUExecutionProvider"]))


@pytest.mark.parametrize(
    ("kind", "memory", "threads"),
    [("slot", GiB, 1), ("slot", 8 * GiB, 8), ("slot", 64 * GiB, 64), ("slot", 100 * GiB, 64), ("gpu", 64 * GiB, 1)],
)
def test_threads_are_as_large_a_part_of_the_cores_as_the_claim_of_the_slots(
    kind: Kind, memory: int, threads: int
) -> None:
    assert threads_for(kind, 64, memory, 64 * GiB) == threads
