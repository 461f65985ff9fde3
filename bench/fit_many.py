"""One cell on several processes of this machine's CPU, against one process and against DDP and FSDP2 written by hand.

Bytes at rest for each rank are counted by storages: parameters, gradients and the optimizer's state, against the
formula (4 times the parameters with Adam). Times are ratios of interleaved runs: on two cores, k processes share what
one has to itself, and ratios to DDP say more than those to one process. Last, what each number of devices was
predicted to take, and what is lost by taking the number that was predicted to be the quickest.
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
from typing import Any, NoReturn

from common import package_root, write_results

package_root()

import torch  # noqa: E402 - needs the path above
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bench.fit_models import Dense, Pictures, Words  # noqa: E402
from jupyter_gpufit.devices.cards import Context, sheet_of  # noqa: E402
from jupyter_gpufit.devices.speeds import DeviceSpeed, among, keep_exchange  # noqa: E402
from jupyter_gpufit.estimate.asking.ask import Ask  # noqa: E402
from jupyter_gpufit.estimate.asking.look import look  # noqa: E402
from jupyter_gpufit.fit.rungs.speeds import measure_speed  # noqa: E402
from jupyter_gpufit.fit.several.calls import around  # noqa: E402
from jupyter_gpufit.fit.several.shards import lies_here  # noqa: E402
from jupyter_gpufit.fit.several.split import kept_here  # noqa: E402
from jupyter_gpufit.fit.sharing import PARAMETERS, STATES, Sharing  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402
from jupyter_gpufit.testing import fake_device  # noqa: E402
from jupyter_gpufit.worker.ranks import speed  # noqa: E402
from jupyter_gpufit.worker.ranks.links import linked  # noqa: E402
from jupyter_gpufit.worker.ranks.reading import reading_ends  # noqa: E402
from jupyter_gpufit.worker.ranks.shared import SharedGroup, region  # noqa: E402

MODELS: dict[str, type[Any]] = {"Dense": Dense, "Words": Words, "Pictures": Pictures}
SIZES = (2,) if (os.cpu_count() or 1) < 4 else (2, 4)
WAYS = ("ours", "split", "sharded", "ddp", "fsdp2")
SPLIT = {"split": STATES, "sharded": PARAMETERS}
FORMULA = {
    "ours": lambda k: 4.0,
    "split": lambda k: 2 + 2 / k,
    "sharded": lambda k: 4 / k,
    "ddp": lambda k: 4.0,
    "fsdp2": lambda k: 4 / k,
}
SLOT = fake_device("cpu:0", label="cpu:0", kind="slot", total=8 << 30, utilisation=None)
LIMIT = 120.0  # seconds for one training
STEPS, FIRST = 6, 2  # of which the first ones are not timed
ROUNDS = int(os.environ.get("ROUNDS", "2"))  # of which the best counts
CELL = """
import torch
from torch.nn import functional as F
from bench.fit_models import {name}
model = {name}().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(8):
    x, y = {name}.batch("cuda")
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all storages at rest."""
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    tensors += [v for state in kept_here(optimizer) for v in state.values() if isinstance(v, torch.Tensor)]
    tensors = [t.to_local() if isinstance(t, DTensor) else lies_here(t) for t in tensors]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def train(kind: type[Any], group: SharedGroup | None, rank: int, size: int, way: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = kind()
    of_parameters = sum(p.nbytes for p in model.parameters())
    called: Callable[..., Any] = model
    if way == "ddp":
        called = nn.parallel.DistributedDataParallel(model)
    if way == "fsdp2":
        for unit in [*(getattr(model, "blocks", None) or model.children()), model]:
            fully_shard(unit)
    optimizer = torch.optim.AdamW(model.parameters())
    context: AbstractContextManager[Any] = (
        around(group, split=SPLIT.get(way, 0)) if group is not None else nullcontext()
    )
    losses, took = [], []
    with context:
        for _ in range(STEPS):
            x, y = kind.batch("cpu")
            y = y.roll(1, 0)  # of other samples: a loss of 0 would compare nothing
            if way in ("ddp", "fsdp2"):
                x, y = x.chunk(size)[rank], y.chunk(size)[rank]
            began = time.perf_counter()
            loss = F.cross_entropy(called(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            took.append(time.perf_counter() - began)
            losses.append(loss.item())
        at_rest = held(model, optimizer)
    return {"losses": losses, "step": statistics.median(took[FIRST:]), "held": at_rest, "parameters": of_parameters}


def lost(why: BaseException) -> NoReturn:
    raise why


def rank_of(name: str, rank: int, size: int, way: str, store: str, of_ranks: list[Any]) -> None:
    """Trains, and the first one tells."""
    torch.set_num_threads(1)
    group, told = None, {}
    if way in ("ddp", "fsdp2"):
        shared = torch._C._distributed_c10d.FileStore(store, size)
        dist.init_process_group("gloo", store=shared, rank=rank, world_size=size)
    elif size > 1:
        links, memory, reading = of_ranks
        group = SharedGroup(links[rank], memory, lost, reading=reading[rank])
        large, small = torch.zeros(speed.LARGE // 4), torch.zeros(1)
        many, one = (min(speed._seconds(group, t, 10) for _ in range(3)) for t in (large, small))
        told = {"exchange": speed.LARGE / (many - one), "meeting": one}
    found = train(MODELS[name], group, rank, size, way)
    if rank == 0:
        print(json.dumps(found | told), flush=True)
    if group is not None:
        group.meet()  # of a state in parts, the others are read to the end


def ranks(name: str, size: int, way: str) -> int:
    """Forks them, before anything has computed; where one fails, the others end with it."""
    pids = set()
    of_ranks: list[Any] = [linked(size), region(size), reading_ends(size)] if size > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(size):
            if not (pid := os.fork()):
                code = 1
                try:
                    rank_of(name, rank, size, way, f"{folder}/store", of_ranks)
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


def best(name: str, size: int, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Each way in turn, some times over: of each the round with the quickest step."""
    rounds = [{way: run(name, size, way) for way in ways} for _ in range(ROUNDS)]
    return {way: min((one[way] for one in rounds), key=lambda found: found["step"]) for way in ways}


def predicted(name: str, size: int, settings: Settings, known: DeviceSpeed) -> float:
    """Seconds of a step on so many slots, by a trial run."""
    card = sheet_of(SLOT).card
    ours = among(settings, known, "slot", card.name, size)
    ask = Ask(card=card, context=Context(0, 0, ""), kind="slot", sharing=Sharing(size), speed=ours, fit="no")
    answer = look(CELL.format(name=name), dict, ask)
    assert answer.estimate.seconds_per_step, answer
    return answer.estimate.seconds_per_step


def main() -> None:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    known = measure_speed("cpu")
    rows: list[dict[str, Any]] = []
    choices: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as data:
        settings = Settings(data=data)
        for name in MODELS:
            alone = best(name, 1, ("alone",))["alone"]
            measured, foreseen = {1: alone["step"]}, {1: predicted(name, 1, settings, known)}
            for size in SIZES:
                found = best(name, size, WAYS)
                keep_exchange(settings, "slot", "", size, found["ours"]["exchange"], found["ours"]["meeting"])
                measured[size], foreseen[size] = found["ours"]["step"], predicted(name, size, settings, known)
                rows += [_row(name, size, way, found, alone) for way in WAYS]
            choices.append(_choice(name, measured, foreseen))
            results = {"load": os.getloadavg()[0], "rows": rows, "choices": choices}
            write_results("fit_many", results)


def _row(name: str, size: int, way: str, found: dict[str, dict[str, Any]], alone: dict[str, Any]) -> dict[str, Any]:
    one, formula = found[way], FORMULA[way](size)
    row = {
        "model": name,
        "devices": size,
        "way": way,
        "bytes_in_parameters": one["held"] / one["parameters"],
        "bytes_over_formula": one["held"] / (formula * one["parameters"]),
        "time_over_ddp": one["step"] / found["ddp"]["step"],
        "time_over_one": one["step"] / alone["step"],
    }
    if not way.startswith(("ddp", "fsdp")):  # by hand, each rank's loss is that of its own samples
        pairs = zip(one["losses"], alone["losses"], strict=True)
        row["loss_apart"] = max(abs(a - b) / abs(b) for a, b in pairs)
    print(*(f"{key} {value:.3g}" if isinstance(value, float) else value for key, value in row.items()), flush=True)
    return row


def _choice(name: str, measured: dict[int, float], foreseen: dict[int, float]) -> dict[str, Any]:
    """How far off it was, and what is lost by going by it."""
    chosen = min(foreseen, key=lambda size: foreseen[size])
    quickest = min(measured, key=lambda size: measured[size])
    row = {
        "model": name,
        "measured": measured,
        "predicted": foreseen,
        "chosen": chosen,
        "quickest": quickest,
        "regret": measured[chosen] / measured[quickest] - 1,
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(ranks(sys.argv[1], int(sys.argv[2]), sys.argv[3]) if sys.argv[1:] else main())
