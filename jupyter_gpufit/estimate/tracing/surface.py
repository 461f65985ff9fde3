"""torch.cuda as the cell sees it: the target card's answers, memory from the books, and silence for the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...cuda.types import default_type, types_on_cuda
from ...devices.card import Card
from .books import Books

_SILENT = """synchronize empty_cache set_device manual_seed manual_seed_all seed seed_all set_rng_state
set_rng_state_all init _lazy_init reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached
reset_accumulated_memory_stats ipc_collect set_per_process_memory_fraction _sleep set_stream"""


@dataclass(frozen=True)
class CardProperties:
    name: str
    total_memory: int  # bytes
    major: int
    minor: int
    multi_processor_count: int
    warp_size: int = 32
    gcnArchName: str = ""
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536


class Quiet:
    """A stream, an event, or a context that switches to one: nothing here is asynchronous."""

    cuda_stream = stream_id = device_index = 0
    device = torch.device("cuda", 0)

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *args: object) -> None: ...

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, end: object) -> float:
        return 1.0

    def record(self, *args: object) -> None: ...

    wait = synchronize = wait_stream = wait_event = record

    def record_event(self, event: Quiet | None = None) -> Quiet:
        return event or Quiet()


def begin(books: Books) -> None:
    for name, value in _answers(books).items():
        _everywhere(name, value)
    for name in _SILENT.split():
        _everywhere(name, _always(None))
    for name in ("device", "stream", "Stream", "Event", "StreamContext", "device_of"):
        _everywhere(name, type(name, (Quiet,), {}))
    for name in ("current_stream", "default_stream"):
        _everywhere(name, lambda *args, **kwargs: Quiet())
    _accelerator()
    for name, kind in types_on_cuda():
        setattr(torch.cuda, name, kind)
    torch.set_default_tensor_type = default_type(torch.set_default_tensor_type)
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):  # libraries with kernels of their own ask at import
        torch._C._cuda_getCurrentRawStream = _always(0)
    _step_always()


def _accelerator() -> None:
    """The newer name for the same; only torch's own code may learn that it is the stand-in."""
    real: Callable[..., torch.device | None] = torch.accelerator.current_accelerator

    def current(*args: Any, **kwargs: Any) -> torch.device | None:
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return real(*args, **kwargs) if asker.startswith("torch.") else torch.device("cuda")

    torch.accelerator.current_accelerator = current
    torch.accelerator.is_available = _always(True)
    torch.accelerator.device_count = _always(1)
    torch.accelerator.current_device_index = torch.accelerator.current_device_idx = _always(0)
    vars(torch.accelerator)["current_stream"] = lambda *args: Quiet()
    for name in ("synchronize", "set_device_index", "set_device_idx", "set_stream", "empty_cache"):
        setattr(torch.accelerator, name, _always(None))
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats"):
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, getattr(torch.cuda, name))


def _everywhere(name: str, value: Any) -> None:
    for module in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams):
        if hasattr(module, name):
            setattr(module, name, value)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _answers(books: Books) -> dict[str, Any]:
    card = books.card
    properties = CardProperties(card.name, card.total, *card.capability, card.sms)
    rng = torch.zeros(16, dtype=torch.uint8)
    of_the_card = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_tf32_supported": card.capability >= (8, 0),
        "device_count": 1,
        "current_device": 0,
        "initial_seed": 0,
        "_is_in_bad_fork": False,
        "get_device_name": card.name,
        "get_device_capability": card.capability,
        "get_device_properties": properties,
        "get_arch_list": [f"sm_{card.capability[0]}{card.capability[1]}"],
        "is_current_stream_capturing": False,
        "get_rng_state": rng,
        "get_rng_state_all": [],
    }
    return {name: _always(value) for name, value in of_the_card.items()} | _memory(books, card)


def _memory(books: Books, card: Card) -> dict[str, Callable[..., Any]]:
    return {
        "memory_allocated": lambda *args, **kwargs: books.now,
        "memory_reserved": lambda *args, **kwargs: books.now,
        "max_memory_allocated": lambda *args, **kwargs: books.peak,
        "max_memory_reserved": lambda *args, **kwargs: books.peak,
        "mem_get_info": lambda *args, **kwargs: (max(0, card.total - books.now), card.total),
        "memory_summary": lambda *args, **kwargs: "",
        "memory_stats": lambda *args, **kwargs: _stats(books),
    }


def _stats(books: Books) -> dict[str, int]:
    kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    current = {f"{kind}.all.current": books.now for kind in kinds}
    return current | {f"{kind}.all.peak": books.peak for kind in kinds} | {"num_alloc_retries": 0, "num_ooms": 0}


def _step_always() -> None:
    """A guessed check for "inf" must not skip the step that we count."""

    def step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    torch.amp.grad_scaler.GradScaler._maybe_opt_step = step  # type: ignore[assignment]
