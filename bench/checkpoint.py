"""How long a checkpoint of 1.5 GB stops a training, when it is durable, and how fast it is back; beside its peers.

    python bench/checkpoint.py [--gb 1.48] [--rounds 5] [--dir DIRECTORY]

The state is that of GPT-2 small with AdamW: 444 tensors of float32. Every round does everything once, each on a quiet
disk (what the last one wrote is on it) and, to read, with the file out of the page cache. The floor is one file written
with plain 16 MiB writes and one fsync, and read with plain 16 MiB reads into fresh memory. "Steps meanwhile" is what
twelve steps of a training take longer than usual while the checkpoint is written.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import mmap
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from common import package_root, show_table, write_results

package_root()

import hashlib  # noqa: E402
import zlib  # noqa: E402

import xxhash  # noqa: E402

from jupyter_gpufit.checkpoint.files import newest  # noqa: E402
from jupyter_gpufit.checkpoint.manifest import About  # noqa: E402
from jupyter_gpufit.checkpoint.snapshot_values import Blob, Snapshot  # noqa: E402
from jupyter_gpufit.checkpoint.writer import Writer  # noqa: E402

STEP = 16 << 20  # bytes per plain write or read
STEPS = 12

Times = dict[str, list[float]]
State = dict[str, torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.48, help="10^9 bytes of state")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default="/var/tmp", help="on the disk to be measured")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="gpufit-bench-", dir=chosen.dir))
    try:
        measure(place, chosen.gb, chosen.rounds)
    finally:
        shutil.rmtree(place)


def measure(place: Path, gb: float, rounds: int) -> None:
    state = gpt2(gb)
    nbytes = sum(tensor.nbytes for tensor in state.values())
    times: Times = defaultdict(list)
    writer = Writer(place / "checkpoints", 1, 1)
    begin = time.perf_counter()
    making = writer.prepare(nbytes + (1 << 20))
    assert making is not None
    making.join()
    prepared = time.perf_counter() - begin
    usual = usual_step()
    try:
        for number in range(rounds + 1):
            found: dict[str, float] = {}
            writes(place, state, writer, number, usual, found)
            reads(place, state, found)
            if number:  # the first warms up
                for name, seconds in found.items():
                    times[name].append(seconds)
    finally:
        writer.close()
    report(times, nbytes, prepared)


def report(times: Times, nbytes: int, prepared: float) -> None:
    median = {name: statistics.median(found) for name, found in times.items()}
    rows = []
    for name, seconds in median.items():
        floor = median[FLOOR_READ if "restore" in name or "read" in name else FLOOR_WRITE]
        bare = "pause" in name or "steps" in name
        speed = "-" if bare else f"{nbytes / seconds / 1e9:.2f} GB/s"
        share = "-" if bare else f"{100 * floor / seconds:.0f} %"
        spread = f"{min(times[name]):.3f}-{max(times[name]):.3f}"
        rows.append((name, f"{seconds:.3f} s", spread, speed, share))
    show_table(("", "median", "min-max", "speed", "of the floor's"), rows)
    bars = {
        "pause at most 0.15 s": median["gpufit: pause"],
        "durable at 80 % of the plain write": median[FLOOR_WRITE] / median["gpufit: durable"],
        "restore at 70 % of the plain read": median[FLOOR_READ] / median["gpufit: restore, checked"],
    }
    print(*(f"{name}: {value:.2f}" for name, value in bars.items()), sep="\n")
    sums = checksums()
    print("checksums, GB/s on one thread:", ", ".join(f"{name} {speed:.1f}" for name, speed in sums.items()))
    seconds_found = {
        name: {"median": statistics.median(found), "min": min(found), "max": max(found)}
        for name, found in times.items()
    }
    write_results(
        "checkpoint",
        {
            "bytes": nbytes,
            "load": os.getloadavg()[0],
            "seconds": seconds_found,
            "bars": bars,
            "buffer made in seconds": prepared,
            "checksums GB/s": sums,
        },
    )


FLOOR_WRITE, FLOOR_READ = "plain write + fsync", "plain read"
CPU = "gpufit: CPU time in the pause, all threads"  # what a busy machine does not make longer


def gpt2(gb: float) -> State:
    """GPT-2 small's parameters with both of AdamW's averages, cut to `gb`."""
    shapes: list[tuple[int, ...]] = [(50257, 768), (1024, 768)]
    for _ in range(12):
        shapes += [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,)]
        shapes += [(3072, 768), (3072,), (768, 3072), (768,)]
    shapes += [(768,), (768,)]
    state: State = {}
    left = gb * 1e9
    for kind in ("weight", "exp_avg", "exp_avg_sq"):
        for number, shape in enumerate(shapes):
            left -= 4 * torch.Size(shape).numel()
            if left >= 0:
                state[f"{kind}.{number}"] = torch.rand(shape)
    return state


def writes(place: Path, state: State, writer: Writer, number: int, usual: float, found: dict[str, float]) -> None:
    ways: list[Callable[[], None]] = [
        lambda: plain(place, state, found),
        lambda: saved(place, state, found),
        lambda: dcp(place / "dcp", state, usual, found),
        lambda: ours(state, writer, number, usual, found),
    ]
    # In turn first: a disk with a burst to spend, as most rented ones have, is fastest for whoever comes first.
    for way in ways[number % 4 :] + ways[: number % 4]:
        way()


def plain(place: Path, state: State, found: dict[str, float]) -> None:
    with fresh(place / "plain") as path, timed(found, FLOOR_WRITE):
        with path.open("wb", buffering=0) as file:
            for tensor in state.values():
                data = bytes_of(tensor)
                for at in range(0, len(data), STEP):
                    file.write(data[at : at + STEP])
            os.fsync(file.fileno())


def saved(place: Path, state: State, found: dict[str, float]) -> None:
    with fresh(place / "torch.pt") as path, timed(found, "torch.save + fsync"):
        with path.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())


def ours(state: State, writer: Writer, number: int, usual: float, found: dict[str, float]) -> None:
    copies(state, found)
    os.sync()
    snapshot = snapshot_of(state)
    begin = time.process_time()
    saving = writer.save(snapshot, about(number))
    found[CPU] = time.process_time() - begin
    found["gpufit: pause"] = saving.paused
    found["gpufit: durable"] = saving.result().seconds
    os.sync()
    saving = writer.save(snapshot_of(state), about(number, automatic=True))
    found[f"gpufit, automatic: {STEPS} steps meanwhile"] = slower_steps(usual)
    saving.result()


def copies(state: State, found: dict[str, float]) -> None:
    """The least that a pause can be."""
    global touched
    if touched is None:
        touched = torch.zeros(sum(tensor.nbytes for tensor in state.values()), dtype=torch.uint8)
    at = touched.data_ptr()
    with timed(found, "memmove into touched memory, one thread: pause"):
        for tensor in state.values():
            ctypes.memmove(at, tensor.data_ptr(), tensor.nbytes)
            at += tensor.nbytes


touched: torch.Tensor | None = None


def dcp(path: Path, state: State, usual: float, found: dict[str, float]) -> None:
    """torch's own: a copy, and a thread that writes."""
    # From where they are: mypy does not see what torch.distributed passes on.
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import async_save

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    for name in ("alone", "with steps"):
        shutil.rmtree(path, ignore_errors=True)
        os.sync()
        begin = time.perf_counter()
        response: Any = async_save(state, storage_writer=FileSystemWriter(path, sync_files=True))
        pause = time.perf_counter() - begin
        if name == "with steps":
            found[f"DCP async_save: {STEPS} steps meanwhile"] = slower_steps(usual)
        getattr(response, "upload_completion", response).result()
        if name == "alone":
            found["DCP async_save: pause"] = pause
            found["DCP async_save: durable"] = time.perf_counter() - begin


def reads(place: Path, state: State, found: dict[str, float]) -> None:
    nbytes = sum(tensor.nbytes for tensor in state.values())
    forget(place)
    with timed(found, FLOOR_READ), (place / "plain").open("rb", buffering=0) as file:
        into = memoryview(mmap.mmap(-1, nbytes))
        for at in range(0, nbytes, STEP):
            file.readinto(into[at : at + STEP])
    del into
    forget(place)
    with timed(found, "torch.load: read"):
        loaded = torch.load(place / "torch.pt")
    del loaded
    gc.collect()
    forget(place)
    with timed(found, "gpufit: restore, checked"):
        opened = newest(place / "checkpoints").opened
        assert opened is not None
        with opened:
            restored = {name: torch.empty_like(tensor) for name, tensor in state.items()}
            opened.read_many((number, bytes_of(tensor)) for number, tensor in enumerate(restored.values()))
    assert all(torch.equal(restored[name], state[name]) for name in state)


def snapshot_of(state: State) -> Snapshot:
    graph = io.BytesIO()
    torch.save({name: tensor.shape for name, tensor in state.items()}, graph)
    return Snapshot(graph.getvalue(), tuple(blob(name, tensor) for name, tensor in state.items()))


def blob(name: str, tensor: torch.Tensor) -> Blob:
    def write(view: memoryview) -> None:
        torch.frombuffer(view, dtype=tensor.dtype).view(tensor.shape).copy_(tensor)

    return Blob(name, "F32", tuple(tensor.shape), tensor.nbytes, write, address=tensor.data_ptr())


def about(step: int, automatic: bool = False) -> About:
    return About(step=step, epoch=1, time=time.time(), where="", device="", automatic=automatic)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    return memoryview((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def step() -> None:
    a = torch.ones(1024, 1024)
    for _ in range(4):
        a = a @ a * 1e-3


def usual_step() -> float:
    step()
    taken = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def slower_steps(usual: float) -> float:
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return time.perf_counter() - begin - STEPS * usual


@contextmanager
def fresh(path: Path) -> Iterator[Path]:
    path.unlink(missing_ok=True)
    os.sync()
    yield path


def forget(place: Path) -> None:
    """Let the system forget the files' pages, so that they are read from the disk."""
    os.sync()
    for path in place.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    times[name] = time.perf_counter() - begin


def checksums() -> dict[str, float]:
    """Why XXH3: what each costs."""
    data = os.urandom(64 << 20)

    def speed(function: Callable[[bytes], object]) -> float:
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            function(data)
            taken.append(time.perf_counter() - begin)
        return len(data) / min(taken) / 1e9

    return {
        "xxh3_128": speed(lambda data: xxhash.xxh3_128(data).digest()),
        "crc32": speed(zlib.crc32),
        "sha256": speed(lambda data: hashlib.sha256(data).digest()),
        "blake2b": speed(lambda data: hashlib.blake2b(data).digest()),
    }


if __name__ == "__main__":
    main()
