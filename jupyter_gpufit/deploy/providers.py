"""What ONNX Runtime is told for a device, and whether it did so; pure.

On a GPU three of its defaults are wrong for one who shares: cuDNN's exhaustive search takes gigabytes to save
milliseconds, the arena doubles itself, and nothing bounds it. And where CUDA cannot be had, ONNX Runtime goes on on the
CPU and says nothing: so the session is asked afterwards. (`session.disable_cpu_ep_fallback` would refuse every model
with a shape to compute, since ONNX Runtime does that on the CPU by its own choice.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..devices.device import Device, Kind
from ..errors import NoRuntime

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@dataclass(frozen=True, kw_only=True)
class Provider:
    """How a session is made."""

    names: tuple[str, ...]  # the first one is to run the model
    options: Mapping[str, str] = field(default_factory=dict)  # of the first one
    threads: int  # of one operator


def provider_for(device: Device, memory: int, context: int, threads: int) -> Provider:
    """What suits a claim of `memory` bytes on the device, of which a driver's context takes some."""
    if device.kind == "slot":
        return Provider(names=(CPU,), threads=threads)
    return Provider(
        names=(CUDA, CPU),
        options={
            "device_id": "0",  # the process sees no other
            "gpu_mem_limit": str(max(memory - context, memory // 2)),
            "arena_extend_strategy": "kSameAsRequested",
            "cudnn_conv_algo_search": "HEURISTIC",
        },
        threads=threads,
    )


def check_provider(provider: Provider, running: Sequence[str]) -> None:
    """Raise NoRuntime where the session runs elsewhere than it was told."""
    wanted = provider.names[0]
    if list(running)[:1] != [wanted]:
        raise NoRuntime(
            f"ONNX Runtime has no {wanted} here and would run on {', '.join(running) or 'nothing'} instead, which"
            " nobody asked for. It needs CUDA 13 and cuDNN 9: pip install 'onnxruntime-gpu[cuda,cudnn]'; or deploy it"
            " on a CPU slot."
        )


def threads_for(kind: Kind, cores: int, memory: int, all_memory: int) -> int:
    """Threads of one operator: on a CPU slot, as large a part of the cores as the claim is of all slots' memory.

    On a GPU the processor only feeds the device.
    """
    if kind != "slot" or all_memory <= 0:
        return 1
    return min(cores, max(1, round(cores * memory / all_memory)))
