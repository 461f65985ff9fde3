"""Estimates beside published measurements of real GPUs, to which no constant is fitted. Takes some minutes, no GPU."""

from __future__ import annotations

import sys

from common import package_root, write_results

package_root()

from jupyter_gpufit.units import MiB  # noqa: E402 - needs the path above
from tests.estimate.published import COSTLY, ROWS, TOO_LARGE, error, estimated, fits, misses, table  # noqa: E402


def main() -> None:
    print(table(ROWS))
    wrong = misses(ROWS)
    for row in TOO_LARGE:
        verdict = "said to fit, and did not" if fits(row) else "rightly said not to fit"
        print(f"{row.name:36}{verdict}")
        wrong += [f"{row.name}: {verdict}"] if fits(row) else []
    rows = {
        row.name: {
            "measured MiB": round(row.measured / MiB),
            "estimated MiB": round(estimated(row) / MiB),
            "error %": round(error(row), 2),
            "too low by more than the margin": error(row) < -COSTLY,
            "cause": row.cause,
        }
        for row in ROWS
    }
    write_results("accuracy", {"rows": rows, "misses": wrong})
    if wrong:
        sys.exit("The limits are missed: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
