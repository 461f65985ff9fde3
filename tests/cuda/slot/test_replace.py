from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._device import DeviceContext

from jupyter_gpufit.cuda.slot import Budget, as_slot
from jupyter_gpufit.errors import NotOnASlot
from jupyter_gpufit.units import GiB

# Calls that must work, as users write them, and what they give.
WORK = {
    "torch.cuda.is_available()": True,
    "torch.cuda.is_initialized()": True,
    "torch.cuda.device_count()": 1,
    "torch.cuda.current_device()": 0,
    "torch.cuda.get_device_name()": "CPU slot cpu:0",
    "torch.cuda.get_device_name(torch.cuda.current_device())": "CPU slot cpu:0",
    "torch.cuda.get_device_properties(0).total_memory": 8 * GiB,
    "torch.cuda.get_device_properties('cuda').name": "CPU slot cpu:0",
    "torch.cuda.get_device_capability()": (7, 0),
    "torch.cuda.is_bf16_supported()": True,
    "torch.cuda.mem_get_info()[1]": 8 * GiB,
    "torch.cuda.mem_get_info(0)[0] > 7 * 2**30": True,
    "torch.cuda.memory_allocated() < 2**30": True,
    "torch.cuda.memory_reserved('cuda:0') < 2**30": True,
    "torch.cuda.max_memory_allocated(torch.device('cuda')) < 2**30": True,
    "torch.cuda.max_memory_reserved() < 2**30": True,
    "torch.cuda.memory_stats()['allocated_bytes.all.peak'] < 2**30": True,
    "torch.cuda.memory_summary()[:14]": "CPU slot cpu:0",
    "torch.cuda.memory.memory_allocated() < 2**30": True,
    "torch.cuda.reset_peak_memory_stats()": None,
    "torch._C._cuda_getCurrentRawStream(0)": 0,  # bitsandbytes looks for it at import, and with it peft, a Trainer
    "torch.cuda.empty_cache()": None,
    "torch.cuda.ipc_collect()": None,
    "torch.cuda.synchronize()": None,
    "torch.cuda.synchronize(torch.device('cuda:0'))": None,
    "torch.cuda.set_device(0)": None,
    "torch.cuda.set_device('cuda:0')": None,
    "torch.cuda.init()": None,
    "torch.cuda.manual_seed(1)": None,
    "torch.cuda.manual_seed_all(1)": None,
    "torch.cuda.set_rng_state(torch.cuda.get_rng_state())": None,
    "torch.cuda.random.set_rng_state_all(torch.cuda.random.get_rng_state_all())": None,
    "torch.cuda.current_stream().synchronize()": None,
    "torch.cuda.Stream().wait_stream(torch.cuda.default_stream())": None,
    "torch.ones(2).cuda().record_stream(torch.cuda.current_stream())": None,
    "torch.cuda.nvtx.range_push('step')": 0,
    "torch.cuda.nvtx.range_pop()": 0,
    "torch.cuda.is_current_stream_capturing()": False,
    "torch.accelerator.is_available()": True,
    "torch.accelerator.current_accelerator().type": "cuda",
    "torch.cuda.utilization(0)": 0,  # percent, since it was last asked: a program looks for an idle device
    "torch.accelerator.synchronize()": None,
    "torch.accelerator.device_count()": 1,
    "torch.get_device_module('cuda').device_count()": 1,
    "torch.rand(2, device='cuda', generator=torch.Generator(device='cuda').manual_seed(1)).is_cuda": True,
    "isinstance(torch.default_generator, torch.Generator)": True,
    "torch.backends.cuda.enable_flash_sdp(True)": None,
    "setattr(torch.backends.cudnn, 'benchmark', False)": None,
    "setattr(torch.backends.cuda.matmul, 'allow_tf32', False)": None,
}

# Calls that must be refused, each by its name.
REFUSED = {
    "torch.cuda.CUDAGraph()": "torch.cuda.CUDAGraph",
    "torch.cuda.graph(None)": "torch.cuda.graph",
    "torch.cuda.graphs.make_graphed_callables(None, None)": "torch.cuda.graphs.make_graphed_callables",
    "torch.cuda.MemPool()": "torch.cuda.MemPool",
    "torch.cuda.ExternalStream(1)": "torch.cuda.ExternalStream",
    "torch.cuda.caching_allocator_alloc(8)": "torch.cuda.caching_allocator_alloc",
    "torch.cuda.can_device_access_peer(0, 0)": "torch.cuda.can_device_access_peer",
    "torch.cuda.cudart()": "torch.cuda.cudart",
    "torch.cuda.memory_snapshot()": "torch.cuda.memory_snapshot",
    "torch.cuda.memory._record_memory_history()": "torch.cuda.memory._record_memory_history",
    "torch.cuda.nccl.all_reduce([])": "torch.cuda.nccl.all_reduce",
    "torch.cuda.profiler.start()": "torch.cuda.profiler.start",
    "torch.cuda.temperature()": "torch.cuda.temperature",
    "torch.accelerator.get_device_capability()": "torch.accelerator.get_device_capability",
    "torch.cuda.set_device(1)": "The device cuda:1",
    "torch.cuda.get_device_properties('cuda:3')": "The device cuda:3",
    "torch.Generator(device='cuda:1')": "The device cuda:1",
    "torch.cuda._lazy_init()": "torch.cuda._lazy_init()",
}


@pytest.mark.parametrize("call", WORK)
def test_works(slot: Budget, call: str) -> None:
    assert eval(call) == WORK[call]


@pytest.mark.parametrize("call", REFUSED)
def test_is_refused_by_name(slot: Budget, call: str) -> None:
    with pytest.raises(NotOnASlot) as refusal:
        exec(compile(call, "<cell>", "exec"), {"torch": torch, "__name__": "__main__"})

    assert refusal.value.call in (REFUSED[call], "This call")
    assert "slot cpu:0" in str(refusal.value)


def test_the_refusal_is_a_runtime_error_and_travels(slot: Budget) -> None:
    with pytest.raises(RuntimeError) as refusal:
        torch.cuda.CUDAGraph()

    assert str(pickle.loads(pickle.dumps(refusal.value))) == (
        "torch.cuda.CUDAGraph is not available on the CPU slot cpu:0: it needs a GPU."
        " Leave it out, or run the cell on a GPU."
    )


def test_what_nobody_foresaw_is_refused_by_its_line(slot: Budget) -> None:
    with pytest.raises(NotOnASlot) as refusal:
        torch.UntypedStorage(8, device="cuda")

    assert refusal.value.call == 'torch.UntypedStorage(8, device="cuda")'


def test_a_function_of_torch_that_asks_for_cuda_is_refused_by_name(slot: Budget) -> None:
    with pytest.raises(NotOnASlot, match=r"torch.cuda.*is not available"):
        torch.cuda._get_rng_state_offset()


def test_a_range_marks_a_function_too(slot: Budget) -> None:
    @torch.cuda.nvtx.range("step")
    def step(x: int) -> int:
        return x + 1

    assert [step(1), step(2)] == [2, 3]


def test_the_context_managers_of_cuda(slot: Budget) -> None:
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()), torch.cuda.nvtx.range("step"):
        assert torch.ones(2).cuda().is_cuda
    with pytest.raises(NotOnASlot, match="cuda:1"), torch.cuda.device(1):
        pass


def test_events_measure_the_time_that_passed(slot: Budget) -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before = time.perf_counter()
    start.record()
    begun = time.perf_counter()
    while time.perf_counter() < begun + 0.002:
        torch.ones(100).sum()
    end.record()
    torch.cuda.synchronize()
    passed = (time.perf_counter() - before) * 1000

    assert end.query() and 2 <= start.elapsed_time(end) <= passed
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(torch.cuda.Event())


def test_a_seed_fixes_the_slots_numbers(slot: Budget) -> None:
    def draw() -> list[float]:
        torch.cuda.manual_seed(7)
        numbers: list[float] = torch.randn(3, device="cuda").tolist()
        return numbers

    assert draw() == draw()
    before = torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        draw()
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_the_ways_to_choose_a_device() -> None:
    """The idioms of nanoGPT, Hugging Face, Lightning and PyTorch's own tutorials."""

    def chosen() -> list[Any]:
        accelerator = torch.accelerator
        return [
            "cuda" if torch.cuda.is_available() else "cpu",
            torch.device("cuda" if torch.cuda.is_available() else "cpu").type,
            torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_available() else 0).type,
            accelerator.current_accelerator().type if accelerator.is_available() else "cpu",  # type: ignore[union-attr]
            "cuda" if torch.cuda.device_count() > 0 and torch.cuda.get_device_capability() >= (6, 0) else "cpu",
        ]

    with as_slot("cpu:0", GiB):
        assert set(chosen()) == {"cuda"}


def test_lightnings_questions(slot: Budget) -> None:
    """What its CUDAAccelerator asks of a root device before a training and after it."""
    root = torch.device("cuda", 0)
    torch.cuda.set_device(root)
    model = nn.Linear(2, 2).to(root)
    batch = torch.ones(3, 2).to(root, non_blocking=True)

    assert root.type == "cuda" and next(model.parameters()).device == root and batch.device == root
    assert not (torch.cuda.get_device_capability(root)[0] >= 8)
    assert torch.cuda.memory_stats(root)["active_bytes.all.current"] >= 0
    model.cpu()
    torch.cuda.empty_cache()


def everything_replaced() -> dict[str, object]:
    owners = [module for name, module in sys.modules.items() if name.startswith(("torch.cuda", "torch.accelerator"))]
    classes = [torch.amp.GradScaler, torch.autocast, DeviceContext, threading.Thread, torch.Tensor]
    owners += [torch, torch.amp, torch.autograd, torch.distributed, *classes]  # type: ignore[list-item]
    state = {f"{owner.__name__}.{name}": value for owner in owners for name, value in vars(owner).items()}
    registry = torch.serialization._package_registry
    signals = {str(number): signal.getsignal(number) for number in signal.valid_signals() - {9, 19}}
    return state | signals | {"registry": list(registry), "modes": torch._C._len_torch_function_stack()}


def test_everything_is_put_back() -> None:
    before = everything_replaced()
    with as_slot("cpu:0", GiB):
        during = everything_replaced()
    after = everything_replaced()

    assert after.keys() == before.keys()
    assert [name for name in before if after[name] is not before[name] and after[name] != before[name]] == []
    assert len([name for name in before if during.get(name) is not before[name]]) > 100


def test_everything_is_put_back_after_an_error() -> None:
    before = everything_replaced()
    with pytest.raises(KeyError), as_slot("cpu:0", GiB):
        torch.overrides.TorchFunctionMode().__enter__()
        raise KeyError
    torch.overrides._pop_mode()  # the cell's own, left as it left it

    assert everything_replaced().keys() == before.keys()
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError), match="not compiled with CUDA|NVIDIA"):
        torch.ones(2).cuda()
