"""How large a model trains in 256 MiB: as it is, spilled, and under torch's own FSDP2 with all of it on the CPU.

FSDP2 runs as one rank over gloo. Its parameters, gradients and states are the host's there, and so are the optimizer's
temporaries: only what it gathers, and activations, count as the device's. That is the least that it could take: what a
GPU's copy of a unit takes beside what is gathered is not there on a CPU. Times are not compared: for FSDP2 nothing is
copied there, and its optimizer steps on the host, which changes bits on a GPU.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common import package_root, show_table
from fit_ledger import counted, in_a_fork, predicted, traced

package_root()

import torch  # noqa: E402 - needs the path above
from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from bench.fit_models import Stack  # noqa: E402
from jupyter_gpufit.fit.plan import Plan  # noqa: E402
from jupyter_gpufit.fit.rungs import spill  # noqa: E402
from jupyter_gpufit.units import MiB  # noqa: E402

SLOT, ROOM, NARROW = 256 * MiB, 128 * MiB, 1024
Sizes = Mapping[str, Sequence[tuple[int, int]]]  # of each way, the layers that are tried and their width
MANY: Sizes = {  # layers of 4 MiB
    "as it is": ((12, 1024), (13, 1024)),
    "spilled": ((13, 1024), (60, 1024)),
    "FSDP2": ((13, 1024), (60, 1024)),
}
WIDE: Sizes = {  # three layers of 16 to 100 MiB
    "as it is": ((3, 2048), (3, 2560)),
    "spilled": ((3, 2048), (3, 2560), (3, 3072), (3, 3584)),
    "FSDP2": ((3, 3584), (3, 4096), (3, 5120)),
}
QUICK: Sizes = {"as it is": ((12, 1024), (13, 1024)), "spilled": ((24, 1024),), "FSDP2": ((24, 1024),)}


def largest(say: Callable[[str], None], keep: Callable[[list[dict[str, Any]]], None], *, quick: bool) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for sizes in (QUICK,) if quick else (MANY, WIDE):
        for way, tried in sizes.items():
            for layers, wide in tried:
                row = {"way": way, "layers": layers, "layer": 4 * wide * wide, "weights": layers * 4 * wide * wide}
                row |= _fsdp2(layers, wide) if way == "FSDP2" else _ours(way, layers, wide)
                rows.append(row | {"fits": row["counted"] <= SLOT})
                keep(rows)
                say(f"{way}, {layers} layers of {row['layer'] / MiB:.0f} MiB: {row['counted'] / MiB:.1f} MiB")
    show_table(
        ("way", "layers", "weights", "counted", "in 256 MiB", "on the host"),
        [
            (
                *(row["way"], f"{row['layers']} of {row['layer'] / MiB:.0f} MiB", f"{row['weights'] / MiB:.0f} MiB"),
                *(f"{row['counted'] / MiB:.1f} MiB", "yes" if row["fits"] else "no"),
                f"{row['on_host'] / MiB:.0f} MiB",
            )
            for row in rows
        ],
    )
    print()
    fits = [row for row in rows if row["fits"]]
    ways = dict.fromkeys(row["way"] for row in fits)
    most = {way: {of: max(row[of] for row in fits if row["way"] == way) for of in ("weights", "layer")} for way in ways}
    return {"rows": rows, "largest_tried_that_fits": most}


def _ours(way: str, layers: int, wide: int) -> dict[str, Any]:
    room = ROOM if wide == NARROW else 4 * wide * wide  # the planner's last notch has room for the largest tensor
    plan = Plan({spill.NAME: {"room": room, "host": 0}}, f"spilling all but {room}") if way == "spilled" else Plan()
    size = f"{layers}, {wide}"
    trace, ran = traced("Stack", plan, size), counted("Stack", plan, size)
    return {"predicted": predicted(trace), "counted": ran["peak"], "on_host": ran["taken"]}


# FSDP2 -----------------------------------------------------------------------------------------------------------


class _Sizes(TorchDispatchMode):
    """Bytes of all storages that were seen, as large as they are now: FSDP2 empties and fills them again."""

    def __init__(self, on_host: Callable[[], Mapping[int, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak, self.stepping = 0, False
        self._on_host = on_host
        self._alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.stepping:
            for t in tree_leaves((args, kwargs, out)):
                if type(t) is torch.Tensor:
                    storage = t.untyped_storage()
                    self._alive[storage._cdata] = weakref.ref(storage)
            hosts = self._on_host()
            alive = [ref() for address, ref in self._alive.items() if address not in hosts]
            self.peak = max(self.peak, sum(storage.nbytes() for storage in alive if storage is not None))
        return out


def _fsdp2(layers: int, wide: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = in_a_fork(lambda: _under_fsdp2(layers, wide, folder))
    return found


def _under_fsdp2(layers: int, wide: int, folder: str) -> dict[str, Any]:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
    torch.manual_seed(0)
    model, mesh = Stack(layers, wide), init_device_mesh("cpu", (1,))
    for module in (*model, model):
        fully_shard(module, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def on_host() -> dict[int, int]:
        """What is sharded, its gradients and states: bytes by address."""
        found: dict[int, int] = {}
        for p in model.parameters():
            for t in (p, p.grad, *optimizer.state.get(p, {}).values()):
                local = t.to_local() if hasattr(t, "to_local") else t
                if isinstance(local, torch.Tensor):
                    found[local.untyped_storage()._cdata] = local.untyped_storage().nbytes()
        return found

    with _Sizes(on_host) as sizes:
        for _ in range(2):
            x, y = model.batch("cpu")
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            sizes.stepping = True
            optimizer.step()
            sizes.stepping = False
    taken = sum(on_host().values())
    dist.destroy_process_group()
    return {"predicted": None, "counted": sizes.peak, "on_host": taken}
