"""Estimated and real memory of sixteen trainings, in both modes of the allocator; each job in a process of its own."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import show_table, write_results  # noqa: E402 - needs the path above

from tests.gpu.jobs import JOBS  # noqa: E402
from tests.gpu.test_estimate import estimated, measured  # noqa: E402

MiB = 1 << 20
MODES = ("expandable_segments:False", "expandable_segments:True")


def compare(name: str, options: str) -> dict[str, Any]:
    told, truth = estimated(name, options), measured(name, options)
    errors = {
        f"{key} error %": 100 * (told[f"peak_{key}"] - truth[key]) / truth[key] for key in ("allocated", "reserved")
    }
    return {"job": name, "options": options, "estimated": told, "measured": truth, **errors}


def main() -> None:
    import torch

    if not torch.cuda.device_count():
        print("NEEDS A GPU: nothing was measured.")
        return
    results = [compare(name, options) for options in MODES for name in JOBS]
    rows = [
        (
            one["job"],
            one["options"].rpartition(":")[2],
            f"{one['measured']['allocated'] / MiB:.0f} / {one['measured']['reserved'] / MiB:.0f}",
            f"{one['estimated']['peak_allocated'] / MiB:.0f} / {one['estimated']['peak_reserved'] / MiB:.0f}",
            f"{one['allocated error %']:+.1f} / {one['reserved error %']:+.1f}",
            f"{one['measured']['context'] / MiB:.0f}",
        )
        for one in results
    ]
    show_table(("job", "expandable", "measured MiB", "estimated MiB", "error %", "context MiB"), rows)
    for key in ("allocated", "reserved"):
        print(f"{key}: median error {statistics.median(abs(one[f'{key} error %']) for one in results):.1f} %")
    write_results("gpu_estimate", results)


if __name__ == "__main__":
    main()
