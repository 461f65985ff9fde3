"""What torch.cuda answers in a kernel on a machine with GPUs, read from NVML: no context, no initialisation."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from jupyter_gpufit.cuda.slot import SlotMode, standing_in
from jupyter_gpufit.errors import NoDevice, NotOnASlot
from jupyter_gpufit.graph.kinds.random_numbers import fill_generator, generator_state
from jupyter_gpufit.notebook.cuda import expected as expected_module
from jupyter_gpufit.notebook.cuda.answers import NotebookAnswers
from jupyter_gpufit.notebook.cuda.expected import Expected
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.surroundings import generators
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

A100 = replace(
    fake_device("0", total=40 * GiB, free=30 * GiB), name="NVIDIA A100-SXM4-40GB", kind="gpu", capability=(8, 0)
)
T4 = replace(fake_device("1", total=15 * GiB, free=15 * GiB), name="Tesla T4", kind="gpu", capability=(7, 5))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """`cuda` as in a kernel beside two GPUs; yields what is said."""
    monkeypatch.setattr(expected_module, "read_devices", lambda settings: (T4, A100))
    said: list[str] = []
    expected = Expected(Settings(), lambda: said.append("computed"))
    with standing_in(SlotMode(expected), NotebookAnswers(expected)):
        yield said
    generators.of_cuda.clear()


def test_it_answers_as_the_largest_gpu(notebook: list[str]) -> None:
    properties = torch.cuda.get_device_properties(0)

    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_name() == properties.name == A100.name
    assert torch.cuda.get_device_capability() == (8, 0) == (properties.major, properties.minor)
    assert torch.cuda.is_bf16_supported(including_emulation=False) and properties.multi_processor_count == 108
    assert torch.cuda.mem_get_info() == (30 * GiB, 40 * GiB)
    kept = torch.zeros(1 << 20, device="cuda")
    without_a_shape = torch.nn.LazyLinear(3)  # has no bytes either, and says so by an error
    assert torch.cuda.mem_get_info()[0] == 30 * GiB - kept.nbytes
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == kept.nbytes
    assert notebook == [] and without_a_shape.has_uninitialized_params()


def test_seeds_of_cuda_are_kept_for_the_training_and_leave_the_cpus_alone(notebook: list[str]) -> None:
    torch.manual_seed(1)
    first = torch.rand(2)
    torch.manual_seed(1)
    torch.cuda.manual_seed(7)

    assert torch.equal(torch.rand(2), first)
    assert (
        generators.of_cuda == {"seed": 7}
        and generators.states()["cuda"] == {"seed": 7}
        and torch.cuda.initial_seed() == 7
    )
    torch.manual_seed(3)
    assert generators.of_cuda == {"seed": 3}


def test_what_is_saved_says_cuda_as_a_gpus_would(notebook: list[str]) -> None:
    file = io.BytesIO()
    torch.save([torch.ones(2, device="cuda"), torch.ones(2)], file)
    file.seek(0)
    moved, host = torch.load(file)
    file.seek(0)

    assert (moved.device.type, host.device.type) == ("cuda", "cpu")
    assert not torch.load(file, map_location="cpu")[0].is_cuda


def test_that_it_computes_is_said_once_and_not_for_what_only_looks(notebook: list[str]) -> None:
    model = torch.nn.Linear(2, 2).to("cuda")
    assert f"{model.weight}" and model.state_dict() and model.weight[0].tolist() and notebook == []

    model(torch.ones(2, device="cuda"))
    model(torch.ones(2, device="cuda"))

    assert notebook == ["computed"]


def test_what_cannot_be_answered_says_where(notebook: list[str]) -> None:
    with pytest.raises(NotOnASlot, match="own process .try %%gpufit train.: it needs a GPU"):
        torch.cuda.CUDAGraph()


def test_where_no_device_can_be_read_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(settings: Settings) -> None:
        raise NoDevice("the driver is gone.")

    monkeypatch.setattr(expected_module, "read_devices", none)
    expected = Expected(Settings(), lambda: None)
    with standing_in(SlotMode(expected), NotebookAnswers(expected)):
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0


def test_a_generator_keeps_what_it_was_on_the_gpu_until_it_is_drawn_from(notebook: list[str]) -> None:
    generator = torch.Generator(device="cuda")
    fill_generator(generator, (3, (("cuda", b"its state there"),)))

    assert generator.device.type == "cuda" and generator.initial_seed() == 3
    assert generator_state(generator)[1][1:] == (("cuda", b"its state there"),)
    torch.rand(1, device="cuda", generator=generator)
    assert generator_state(generator)[1][1:] == ()
