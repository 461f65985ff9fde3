"""One cell on several processes of this machine's CPU, against one process and against hand-written DDP, in one run.

Bytes at rest for each rank are counted by storages: parameters, gradients and the optimizer's state, against the
formula (4 times the parameters with Adam). Times are ratios of interleaved runs: on two cores, k processes share what
one has to itself, and ratios to DDP say more than those to one process.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from common import package_root, write_results

package_root()

import torch  # noqa: E402 - needs the path above
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bench.fit_models import Dense, Pictures, Words  # noqa: E402
from jupyter_gpufit.fit.several.calls import around  # noqa: E402
from tests.fit.several.ranks import OverGloo  # noqa: E402

MODELS: dict[str, type[Any]] = {"Dense": Dense, "Words": Words, "Pictures": Pictures}
SIZES = (2,) if (os.cpu_count() or 1) < 4 else (2, 4)
LIMIT = 120.0  # seconds for one training
STEPS, FIRST = 8, 3  # of which the first ones are not timed


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all storages at rest."""
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    tensors += [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def train(kind: type[Any], rank: int, size: int, way: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = kind()
    optimizer = torch.optim.AdamW(model.parameters())
    called: Callable[..., Any] = nn.parallel.DistributedDataParallel(model) if way == "ddp" else model
    group = OverGloo(rank, size)
    context: AbstractContextManager[None] = around(group) if way == "ours" else nullcontext()
    losses, took = [], []
    with context:
        for _ in range(STEPS):
            x, y = kind.batch("cpu")
            y = y.roll(1, 0)  # of other samples: a loss of 0 would compare nothing
            if way == "ddp":
                x, y = x.chunk(size)[rank], y.chunk(size)[rank]
            began = time.perf_counter()
            loss = F.cross_entropy(called(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            took.append(time.perf_counter() - began)
            losses.append(loss.item())
    bytes_held, of_parameters = held(model, optimizer), sum(p.nbytes for p in model.parameters())
    return {"losses": losses, "step": statistics.median(took[FIRST:]), "held": bytes_held, "parameters": of_parameters}


def rank_of(name: str, rank: int, size: int, way: str, folder: str) -> None:
    """Trains, and the first one tells."""
    if size > 1:
        store = torch._C._distributed_c10d.FileStore(f"{folder}/store", size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    found = train(MODELS[name], rank, size, way)
    if rank == 0:
        print(json.dumps(found), flush=True)


def ranks(name: str, size: int, way: str) -> int:
    """Forks them, before anything has computed; where one fails, the others end with it."""
    pids = set()
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(size):
            if not (pid := os.fork()):
                code = 1
                try:
                    rank_of(name, rank, size, way, folder)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            pids.add(pid)
        ends = time.monotonic() + LIMIT
        while pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            pids.discard(pid)
            if status or time.monotonic() > ends:
                for other in pids:
                    os.kill(other, signal.SIGKILL)
                print("a rank failed" if status else f"no end in {LIMIT} s", file=sys.stderr)
                return 1
            time.sleep(0.0 if pid else 0.05)
    return 0


def run(name: str, size: int, way: str) -> dict[str, Any]:
    """What the first rank tells, of a process of its own with one thread for each rank."""
    command = [sys.executable, __file__, name, str(size), way]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name in MODELS:
        one = run(name, 1, "alone")
        for size in SIZES:
            ours, ddp = run(name, size, "ours"), run(name, size, "ddp")
            apart = max(abs(a - b) / abs(b) for a, b in zip(ours["losses"], one["losses"], strict=True))
            row = {
                "model": name,
                "devices": size,
                "bytes_over_formula": ours["held"] / (4 * ours["parameters"]),
                "loss_apart": apart,
                "time_over_ddp": ours["step"] / ddp["step"],
                "time_over_one": ours["step"] / one["step"],
            }
            print(*(f"{key} {value:.3g}" if isinstance(value, float) else value for key, value in row.items()))
            sys.stdout.flush()
            rows.append(row)
    write_results("fit_many", {"load": os.getloadavg()[0], "rows": rows})


if __name__ == "__main__":
    sys.exit(ranks(sys.argv[1], int(sys.argv[2]), sys.argv[3]) if sys.argv[1:] else main())
