"""What a plan is predicted to take against what it takes, to the byte, in one run.

Each model is traced as it is, with half of its blocks recomputed and with all, with its batch in two and in four parts,
with half of its optimizer's state on the host and with all of it, and spilled; and trained so for two steps on a CPU
slot, where a ledger counts every tensor's storage from its birth to its death, but for the time that it is on the host.
Both count what tensors take: no allocator, no context, and of the prediction not the workspaces that a GPU's
kernels have and a CPU's have not. Beside them stand the operations that a step takes against a plain one as predicted,
the time as measured (on a CPU, and so only a hint), and whether the result is that of the plain training, to the bit.

With `large`, instead: the largest of a row of models that trains within 256 MiB as it is, and how much larger ones take
when they are spilled.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import time
import weakref
from dataclasses import asdict
from typing import Any

from common import package_root, show_table, write_results

package_root()

import torch  # noqa: E402 - needs the path above
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from jupyter_gpufit.cuda.slot import as_slot  # noqa: E402
from jupyter_gpufit.devices.cards import find_card  # noqa: E402
from jupyter_gpufit.estimate.reckoning.parts import facts_of  # noqa: E402
from jupyter_gpufit.estimate.reckoning.record import Trace  # noqa: E402
from jupyter_gpufit.estimate.tracing.trace import trace_cell  # noqa: E402
from jupyter_gpufit.fit.ladder import RUNGS, fitted, moved, watchers  # noqa: E402
from jupyter_gpufit.fit.plan import Plan  # noqa: E402
from jupyter_gpufit.fit.rungs import spill  # noqa: E402
from jupyter_gpufit.units import MiB  # noqa: E402

CARD = find_card("NVIDIA A100-SXM4-40GB").card
CELL = """
import torch
from torch import nn
from torch.nn import functional as F
from bench.fit_models import {model} as Model

torch.manual_seed(0)
with torch.device("{device}"):
    model = Model({size})
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)  # as a GPU does it by itself
for step in range({steps}):
    x, y = Model.batch("{device}")
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MODELS = ("Dense", "Words", "Pictures")
STEPS = 2


class Ledger(TorchDispatchMode):
    """Bytes of all tensors' storages that are alive; an address that was freed is used again."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: dict[int, Any] = {}
        self._away: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor):
                self._enter(t.untyped_storage())
        return out

    def _enter(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        known = self._alive.get(address)
        if known is not None and known() is storage:
            return

        def gone(ref: object) -> None:
            if self._alive.get(address) is ref:
                del self._alive[address]
            if address in self._away:
                self._away.remove(address)
            else:
                self.now -= size

        self._alive[address] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)

    def follow(self, storage: torch.UntypedStorage, back: bool) -> None:
        """It is on the host, or on the device again."""
        self.now += storage.nbytes() if back else -storage.nbytes()
        self.peak = max(self.peak, self.now)
        self._away ^= {storage._cdata}


def counted(model: str, plan: Plan, size: str = "") -> dict[str, Any]:
    """What really happened, on this CPU."""
    torch.set_num_threads(2)
    source = CELL.format(model=model, size=size, device="cuda", steps=STEPS)
    namespace: dict[str, Any] = {}
    with as_slot("bench", 1 << 40), Ledger() as ledger, fitted(plan):
        watchers.append(ledger.follow)
        began = time.perf_counter()
        exec(compile(source, "<cell>", "exec"), namespace)
        took, peak = time.perf_counter() - began, ledger.peak
        digest = hashlib.sha256()
        for value in namespace["model"].state_dict().values():
            digest.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {"peak": peak, "seconds": took, "bits": digest.hexdigest()} | asdict(moved())


def predicted(trace: Trace) -> int:
    """Bytes of tensors at the peak, without a GPU's workspaces."""
    now = peak = 0
    for change in trace.changes:
        block = trace.blocks[change.block]
        if block.kind != "workspace":
            now += block.size if change.alive else -block.size
            peak = max(peak, now)
    return peak


def traced(model: str, plan: Plan, size: str = "") -> Trace:
    trace = trace_cell(CELL.format(model=model, size=size, device="cuda", steps=STEPS), dict, CARD, plan=plan)
    assert trace.status == "completed", trace.error
    return trace


def plans(plain: Trace) -> list[Plan]:
    """As it is, and of each rung with half of what it can do and all of it; of a steep one, its first two notches."""
    facts = facts_of(plain)
    found = [Plan()]
    for rung in RUNGS:
        notches = rung.notches(facts)
        last = len(notches) - 1
        found += [Plan().under(rung, notches[at]) for at in ([0, 1] if rung.STEEP else sorted({last // 2, last}))]
    return found


def in_a_child(model: str, plan: Plan, size: str = "") -> dict[str, Any]:
    asked = json.dumps([model, plan.to_record(), size])
    done = subprocess.run([sys.executable, __file__, asked], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(model: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    plain = traced(model, Plan())
    for plan in plans(plain):
        trace = traced(model, plan) if plan.parts else plain
        ran = in_a_child(model, plan)
        first = rows[0] if rows else None
        rows.append(
            {
                "model": model,
                "plan": plan.words,
                "predicted": predicted(trace),
                "counted": ran["peak"],
                "error": predicted(trace) / ran["peak"] - 1,
                "predicted_slower": 1 + trace.flops_again_per_step / (trace.flops_per_step or 1),
                "seconds": ran["seconds"],
                "on_host": [trace.on_host, ran["taken"]],
                "moved_per_step": trace.moved_per_step,
                "same_bits": first is None or ran["bits"] == first["bits"],
                "bits": ran["bits"],
            }
        )
    return rows


def large() -> None:
    """The largest stack of layers of 4 MiB within 256 MiB as it is, and larger ones, spilled with 128 MiB of room."""
    rows: list[dict[str, Any]] = []
    for layers, room in ((12, 0), (13, 0), (13, 128), (60, 128)):
        plan = Plan({spill.NAME: {"room": room * MiB, "host": 0}}, f"spilling all but {room} MiB") if room else Plan()
        trace, ran = traced("Stack", plan, str(layers)), in_a_child("Stack", plan, str(layers))
        row = {"weights": layers * 4 * MiB, "plan": plan.words, "predicted": predicted(trace), "counted": ran["peak"]}
        rows.append(row | {"on_host": ran["taken"], "seconds": ran["seconds"], "moved": trace.moved_per_step})
    show_table(
        ("weights", "plan", "predicted", "counted", "on the host", "moved a step", "seconds"),
        [
            (
                *(f"{row['weights'] / MiB:.0f} MiB", row["plan"]),
                *(f"{row[name] / MiB:.1f} MiB" for name in ("predicted", "counted", "on_host", "moved")),
                f"{row['seconds']:.1f}",
            )
            for row in rows
        ],
    )
    write_results("fit_large", {"rows": rows})


def main() -> None:
    if sys.argv[1:] == ["large"]:
        return large()
    if len(sys.argv) > 1:
        model, plan, size = json.loads(sys.argv[1])
        print(json.dumps(counted(model, Plan.from_record(plan), size)))
        return
    rows = [row for model in MODELS for row in measure(model)]
    errors = [abs(row["error"]) for row in rows]
    show_table(
        ("model", "plan", "predicted", "counted", "error", "time, predicted", "bits"),
        [
            (
                row["model"],
                row["plan"],
                f"{row['predicted'] / MiB:.1f} MiB",
                f"{row['counted'] / MiB:.1f} MiB",
                f"{row['error']:+.2%}",
                f"{row['predicted_slower']:.2f}x",
                "same" if row["same_bits"] else "others",
            )
            for row in rows
        ],
    )
    print(f"error: median {statistics.median(errors):.2%}, worst {max(errors):.2%}")
    write_results("fit", {"rows": rows, "median_error": statistics.median(errors), "worst_error": max(errors)})


if __name__ == "__main__":
    main()
