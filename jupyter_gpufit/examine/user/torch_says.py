"""Import torch and print, as one line of JSON, what it can do here. A process of its own, so that nobody waits for it.

It creates no CUDA context: on a GPU that others use, that would take half a GiB.
"""

from __future__ import annotations

import json
import warnings

from ...devices.here import read_devices
from ...errors import GpufitError
from ...settings import Settings


def _says() -> dict[str, object]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        import torch

        available = torch.cuda.is_available()
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "available": available,
        "count": torch.cuda.device_count() if available else 0,
        "kernels": torch.cuda.get_arch_list(),
        "capabilities": _capabilities(),
        "warnings": [str(warning.message).split("\n")[0] for warning in heard],
    }


def _capabilities() -> list[tuple[int, int]]:
    """Of the GPUs that NVML shows; whether it shows any is another check's matter."""
    try:
        return sorted({device.capability for device in read_devices(Settings()) if device.capability})
    except GpufitError:
        return []


if __name__ == "__main__":
    print(json.dumps(_says()))  # noqa: T201 - the answer to the process that asked
