"""What every benchmark needs: a table on the screen, JSON with date, machine and versions in bench/results."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("jupyter_gpufit", "torch", "ipykernel", "ipython", "jupyter_client", "cloudpickle", "anyio")


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "cores": os.cpu_count(),
            "memory_GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        },
        "python": platform.python_version(),
        "versions": versions,
    }


def write_results(name: str, results: Any, *, said: bool = True) -> None:
    """Write bench/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{name}.json"
    target.write_text(json.dumps(machine() | {"results": results}, indent=1) + "\n")
    if said:
        print(f"\n{target}")


def show_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under heads."""
    text = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in text) for column in range(len(heads))]
    for row in text:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def seconds(function: Callable[[], object], repeat: int) -> dict[str, float]:
    """Minimum, median and maximum wall time."""
    taken = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return {"min": min(taken), "median": statistics.median(taken), "max": max(taken)}


def p(percent: int, values: Sequence[float]) -> float:
    """The percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def package_root() -> str:
    """The checkout, for children of a benchmark."""
    root = str(Path(__file__).resolve().parents[1])
    if root not in sys.path:
        sys.path.insert(0, root)
    return root
