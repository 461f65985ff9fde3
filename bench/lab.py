"""How fair a crowded lab is, and how long people wait: an hour of fifty users on eight devices, in simulated time.

The queue is the product's own (tests/lab/simulated.py); beside it, the same users where whoever came first is served
first, and where whoever looks at the right moment grabs what is free. Fairness is Jain's index of the device-seconds
that each user had per second of being there: 1 where all had the same, 1/n where one had all. A wait is that of each
user's first job; one that never started counts to the end of the hour. Who waits is told
once, on entering the queue, when it may start (among the first twenty); running jobs know their ends to a tenth.

    python bench/lab.py [--hours 1] [--seeds 3]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any, get_args

from common import package_root, show_table, write_results

package_root()

from tests.lab.simulated import Way, played  # noqa: E402 - needs the path above

USERS, DEVICES = 50, 8
QUANTA = (120.0, 300.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    ways: list[tuple[str, Way, float]] = [(f"turns of {quantum:.0f} s", "turns", quantum) for quantum in QUANTA]
    ways += [(way, way, 0.0) for way in get_args(Way) if way != "turns"]
    results: dict[str, Any] = {"users": USERS, "devices": DEVICES, "seconds": options.hours * 3600, "ways": {}}
    rows = []
    for name, way, quantum in ways:
        found = [_one(way, quantum, options.hours * 3600, seed) for seed in range(1, options.seeds + 1)]
        results["ways"][name] = found
        rows.append((name, *(_middle(found, key) for key in SHOWN)))
    show_table(("", *SHOWN.values()), rows)
    write_results("lab", results)


SHOWN = {
    "fairness": "fairness",
    "wait_median": "wait, median (s)",
    "wait_p90": "90 % (s)",
    "wait_most": "longest (s)",
    "never_started": "never started",
    "least": "least used (s)",
    "most": "most used (s)",
    "busy": "busy",
    "turns_ended": "turns ended",
    "told": "told a start",
    "ranges": "as a range",
    "within": "started within",
    "off_p90": "off by, 90 % (s)",
    "width_median": "width, median (s)",
}


def _one(way: Way, quantum: float, seconds: float, seed: int) -> dict[str, float]:
    foretells = way in ("turns", "no turns")
    lab = played(way, users=USERS, devices=DEVICES, seconds=seconds, seed=seed, quantum=quantum, foretells=foretells)
    return {"seed": seed, **lab.figures(), **lab.foretelling()}


def _middle(found: list[dict[str, float]], key: str) -> str:
    return f"{statistics.median(one[key] for one in found):g}"


if __name__ == "__main__":
    main()
