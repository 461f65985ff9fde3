"""How well a plan is foreseen and chosen, how quick it is, and how large a model it trains: all of it in one run.

- predictions: each model is traced as it is, with half of its blocks recomputed and with all, with its batch in parts,
  with half of its optimizer's state on the host and with all of it, and spilled; and trained so for two steps on a CPU
  slot, where a ledger counts every tensor's storage from its birth to its death, but for the time that it is on the
  host. Both count what tensors take: no allocator, no context, and of the prediction not the workspaces that a GPU's
  kernels have and a CPU's have not. Beside them stands whether the result is that of the plain training, to the bit.
- choices: what the planner chooses within so much room, against trying every plan (fit_plans.py). That it does not run
  out is counted; times are those of the clock that predicts, so that no load is in them.
- time: a spilled step against the time that nothing could go below, on links of different speeds (fit_time.py).
- largest: a row of models within 256 MiB, against FSDP2 with CPU offload (fit_large.py).

`--quick` has fewer models and plans, and writes nothing. Names of parts run these alone; others stay in the file. Each
row is written as it is there: a run that is ended keeps what it found, marked as unfinished.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from common import RESULTS, write_results
from fit_large import largest
from fit_plans import choices, predictions
from fit_time import against_the_bound

PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "predictions": predictions,
    "time": against_the_bound,
    "largest": largest,
    "choices": choices,
}


def main() -> None:
    began, quick = time.monotonic(), "--quick" in sys.argv
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    if unknown := [word for word in asked if word not in PARTS]:
        raise SystemExit(f"There is no part {', '.join(unknown)}; there are {', '.join(PARTS)}.")
    chosen = [name for name in PARTS if name in asked] or list(PARTS)

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {what}", file=sys.stderr, flush=True)

    kept = RESULTS / "fit.json"
    found = json.loads(kept.read_text())["results"] if kept.exists() else {}
    found = {name: part for name, part in found.items() if name in PARTS}
    for name in chosen:
        say(name)

        def keep(rows: list[dict[str, Any]], name: str = name) -> None:
            if not quick:
                write_results("fit", found | {name: {"rows": rows, "unfinished": True}}, said=False)

        found[name] = PARTS[name](say, keep, quick=quick)
        if not quick:
            write_results("fit", found)


if __name__ == "__main__":
    main()
