"""How close a spilled step comes to the time that nothing could go below, on links of different speeds.

A stack of layers trains within a quarter of what it takes. Its operations and copies really happen, in this process;
the time is that of the clock that also predicts a plan's, so no load of this machine is in it. The bound is for each
part of a step, the model's and the optimizer's: what is computed, or what crosses the link in the busier direction,
whichever takes longer. The optimizer computes next to nothing, so its part is the link's. `at once` is the same with
every copy waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import package_root, show_table
from fit_ledger import in_a_fork

package_root()

import torch  # noqa: E402 - needs the path above
from torch import nn  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

from jupyter_gpufit.devices import sides  # noqa: E402
from jupyter_gpufit.devices.speeds import DeviceSpeed  # noqa: E402
from jupyter_gpufit.fit.clock import StepClock  # noqa: E402
from jupyter_gpufit.fit.rungs import link  # noqa: E402
from jupyter_gpufit.fit.rungs.pager import Pager, paged  # noqa: E402

RATIOS = (0.25, 0.5, 1.0, 2.0)  # of the link's time to the computer's
WIDE, LAYERS, ROWS, STEPS = 256, 12, 32, 4
OPTIMIZERS = {"SGD": 2, "AdamW": 4}  # times the weights that it takes, with gradients


class Computing(TorchDispatchMode):
    """Spends on the clock what each operation takes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        link.clock.compute(int(formula(*args, **(kwargs or {}), out_val=out)) if formula else 0, 0)
        return out


def step(optimizer: str, room: int | None, speed: float, *, ahead: bool = True) -> dict[str, float]:
    """Of the last step: its time, its bound, and bytes in each direction."""
    link.clock = StepClock(DeviceSpeed(flops=1e9, memory=1e15, link=speed, operation=0.0))
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDE, WIDE, bias=False) for _ in range(LAYERS)))
    for p in model.parameters():
        sides.note(p)
    kind = torch.optim.AdamW if optimizer == "AdamW" else torch.optim.SGD
    chosen = kind(model.parameters(), lr=1e-3)
    marks: list[tuple[float, int, int]] = []

    def mark(*_: Any) -> None:
        marks.append((link.clock.now, link.clock.sent, link.clock.fetched))

    def train() -> None:
        for _ in range(STEPS):
            mark()
            chosen.zero_grad()
            model(torch.randn(ROWS, WIDE)).square().mean().backward()
            chosen.step()
        mark()

    hook = register_optimizer_step_pre_hook(mark)
    try:
        with Computing():
            if room is None:
                train()
            else:
                pager = Pager(room, states_only=False, least=1)
                pager.residency._link = link._OnClock()
                if not ahead:
                    pager.residency.bring_ahead = lambda given: None  # type: ignore[method-assign]
                with paged(pager):
                    train()
    finally:
        hook.remove()
    (begin, *moved), (middle, *moved_middle), (end, *moved_end) = marks[-3:]
    parts = zip(moved, moved_middle, strict=True), zip(moved_middle, moved_end, strict=True)
    crosses = [max(after - before for before, after in part) / speed for part in parts]
    bytes_moved = sum(moved_end) - sum(moved)
    return {
        "time": end - begin,
        "model": middle - begin,
        "crosses": crosses[0],
        "step": crosses[1],
        "moved": bytes_moved,
    }


def measure(optimizer: str, ratio: float) -> dict[str, Any]:
    plain = step(optimizer, None, 1e12)["time"]
    room = OPTIMIZERS[optimizer] * LAYERS * WIDE * WIDE * 4 // 4
    first = step(optimizer, room, 1e15)
    speed = first["moved"] / 2 / (ratio * plain)
    ran, serial = step(optimizer, room, speed), step(optimizer, room, speed, ahead=False)
    bound = max(plain, ran["crosses"]) + ran["step"]
    return {
        "optimizer": optimizer,
        "ratio": ratio,
        "time": ran["time"] / plain,
        "bound": bound / plain,
        "over": ran["time"] / bound,
        "at_once": serial["time"] / plain,
    }


def against_the_bound(
    say: Callable[[str], None], keep: Callable[[list[dict[str, Any]]], None], *, quick: bool
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for optimizer in OPTIMIZERS:
        for ratio in RATIOS:
            rows.append(in_a_fork(lambda: measure(optimizer, ratio)))  # noqa: B023 - it is called at once
            keep(rows)
            say(f"{optimizer}, {ratio:g}: {rows[-1]['over']:.2f}x the bound")
    names = ("time", "bound", "over", "at_once")
    show_table(
        ("optimizer", "link to computing", "time", "bound", "over the bound", "at once"),
        [(row["optimizer"], f"{row['ratio']:g}", *(f"{row[name]:.2f}x" for name in names)) for row in rows],
    )
    print()
    return {"rows": rows, "worst": max(row["over"] for row in rows)}
