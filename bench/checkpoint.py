"""How long a checkpoint of 1.5 GB stops a training, when it is durable, and how fast it is back; beside its peers.

    python bench/checkpoint.py [--gb 1.48] [--rounds 7] [--rest 2] [--dir DIRECTORY]

The state is that of GPT-2 small with AdamW: 444 tensors of float32. Every round does everything once, in another order,
and all find the same machine: what was written before is on the disk and out of the page cache, a burst that the disk
may have is not used up by the one before (so long as a rest lets it recover), what is saved was just used, as by a
training's step, and memory for new pages was touched before. The last decides: on a virtual machine a page that nobody
has touched yet can cost ten times as much, so that whoever writes where pages were just freed would look ten times as
fast. Shares are medians of each round's own.

The floor is one file written with plain 16 MiB writes and one fsync, and read with plain 16 MiB reads into fresh
memory. Beside it stands the same written past the page cache, from memory laid out for that. "Steps meanwhile" is what
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
import sys
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
from jupyter_gpufit.checkpoint.values import Blob, Snapshot  # noqa: E402
from jupyter_gpufit.checkpoint.writer import Writer  # noqa: E402
from jupyter_gpufit.system.processes import with_quick_copies  # noqa: E402

STEP = 16 << 20  # bytes per plain write or read
STEPS = 12

Times = dict[str, list[float]]
State = dict[str, torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.48, help="10^9 bytes of state")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rest", type=float, default=2.0, help="seconds before each")
    parser.add_argument("--dir", default="/var/tmp", help="on the disk to be measured")
    chosen = parser.parse_args()
    if (env := with_quick_copies(os.environ)) != os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], env)  # as a worker is started, and for all ways alike
    place = Path(tempfile.mkdtemp(prefix="gpufit-bench-", dir=chosen.dir))
    try:
        measure(place, chosen.gb, chosen.rounds, chosen.rest)
    finally:
        shutil.rmtree(place)


def measure(place: Path, gb: float, rounds: int, rest: float) -> None:
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
            for way in in_turn(writes(place, state, writer, number, usual, found), number):
                settle(place, state, rest)
                way()
            for way in in_turn(reads(place, state, found), number):
                settle(place, state, rest)
                way()
            print(f"round {number} of {rounds}: a pause of {found['gpufit: pause']:.3f} s", flush=True)
            if number:  # the first warms up
                for name, seconds in found.items():
                    times[name].append(seconds)
    finally:
        writer.close()
    report(times, nbytes, prepared)


def report(times: Times, nbytes: int, prepared: float) -> None:
    median = {name: statistics.median(found) for name, found in times.items()}
    shares = {name: share_of_floor(times, name) for name in times if "pause" not in name and "steps" not in name}
    rows = []
    for name, seconds in median.items():
        speed = f"{nbytes / seconds / 1e9:.2f} GB/s" if name in shares else "-"
        share = f"{100 * shares[name]:.0f} %" if name in shares else "-"
        spread = f"{min(times[name]):.3f}-{max(times[name]):.3f}"
        rows.append((name, f"{seconds:.3f} s", spread, speed, share))
    show_table(("", "median", "min-max", "speed", "of the floor's"), rows)
    bars = {
        "pause at most 0.15 s": median["gpufit: pause"],
        "durable at 80 % of the plain write": shares["gpufit: durable"],
        "restore at 70 % of the plain read": shares["gpufit: restore, checked"],
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
            "of the floor's speed": shares,
            "bars": bars,
            "buffer made in seconds": prepared,
            "checksums GB/s": sums,
        },
    )


def share_of_floor(times: Times, name: str) -> float:
    """Of the floor's speed: the median of what each round shows, in which both met the same disk."""
    floor = times[FLOOR_READ if "restore" in name or "read" in name else FLOOR_WRITE]
    return statistics.median(floors / seconds for floors, seconds in zip(floor, times[name], strict=True))


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


Way = Callable[[], None]


def in_turn(ways: list[Way], number: int) -> list[Way]:
    """Another one first in each round: a disk with a burst to spend, as most rented ones have, is fastest for it."""
    return ways[number % len(ways) :] + ways[: number % len(ways)]


def settle(place: Path, state: State, rest: float) -> None:
    """Let everyone find the same machine."""
    forget(place)
    memory = mmap.mmap(-1, 3 * sum(tensor.nbytes for tensor in state.values()))
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 1
    memory.close()
    gc.collect()
    time.sleep(rest)
    for tensor in state.values():
        tensor.mul_(1)  # a training saves what its step has just used


def writes(place: Path, state: State, writer: Writer, number: int, usual: float, found: dict[str, float]) -> list[Way]:
    return [
        lambda: plain(place, state, found),
        lambda: past_the_cache(place, state, found),
        lambda: saved(place, state, found),
        lambda: dcp(place / "dcp", state, usual, found),
        lambda: ours(place, state, writer, number, usual, found),
    ]


def plain(place: Path, state: State, found: dict[str, float]) -> None:
    with fresh(place / "plain") as path, timed(found, FLOOR_WRITE):
        with path.open("wb", buffering=0) as file:
            for tensor in state.values():
                data = bytes_of(tensor)
                for at in range(0, len(data), STEP):
                    file.write(data[at : at + STEP])
            os.fsync(file.fileno())


def past_the_cache(place: Path, state: State, found: dict[str, float]) -> None:
    """One thread, from a buffer in which the bytes lie as in the file already."""
    buffer = copied(state, {})
    with fresh(place / "direct") as path, timed(found, "plain write past the page cache + fsync"):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        os.posix_fallocate(fd, 0, len(buffer))
        for at in range(0, len(buffer), STEP):
            os.pwrite(fd, buffer[at : at + STEP], at)
        os.fsync(fd)
        os.close(fd)


def saved(place: Path, state: State, found: dict[str, float]) -> None:
    with fresh(place / "torch.pt") as path, timed(found, "torch.save + fsync"):
        with path.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())


def ours(place: Path, state: State, writer: Writer, number: int, usual: float, found: dict[str, float]) -> None:
    copied(state, found)
    snapshot = snapshot_of(state)
    begin = time.process_time()
    saving = writer.save(snapshot, about(number))
    found[CPU] = time.process_time() - begin
    found["gpufit: pause"] = saving.paused
    found["gpufit: durable"] = saving.result().seconds
    forget(place)
    saving = writer.save(snapshot_of(state), about(number, automatic=True))
    found[f"gpufit, automatic: {STEPS} steps meanwhile"] = slower_steps(usual)
    saving.result()


def copied(state: State, found: dict[str, float]) -> memoryview:
    """The state in memory that was touched before, in whole pages; copying it there is the least a pause can be."""
    global touched
    nbytes = sum(tensor.nbytes for tensor in state.values())
    if touched is None:
        touched = mmap.mmap(-1, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        touched.write(bytes(len(touched)))
    to = (ctypes.c_char * len(touched)).from_buffer(touched)
    at = ctypes.addressof(to)
    with timed(found, "memmove into touched memory, one thread: pause"):
        for tensor in state.values():
            ctypes.memmove(at, tensor.data_ptr(), tensor.nbytes)
            at += tensor.nbytes
    return memoryview(touched)


touched: mmap.mmap | None = None


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
        forget(path.parent)
        begin = time.perf_counter()
        response: Any = async_save(state, storage_writer=FileSystemWriter(path, sync_files=True))
        pause = time.perf_counter() - begin
        if name == "with steps":
            found[f"DCP async_save: {STEPS} steps meanwhile"] = slower_steps(usual)
        getattr(response, "upload_completion", response).result()
        if name == "alone":
            found["DCP async_save: pause"] = pause
            found["DCP async_save: durable"] = time.perf_counter() - begin


def reads(place: Path, state: State, found: dict[str, float]) -> list[Way]:
    return [
        lambda: plain_read(place, state, found),
        lambda: loaded(place, found),
        lambda: restored(place, state, found),
    ]


def plain_read(place: Path, state: State, found: dict[str, float]) -> None:
    nbytes = sum(tensor.nbytes for tensor in state.values())
    with timed(found, FLOOR_READ), (place / "plain").open("rb", buffering=0) as file:
        into = memoryview(mmap.mmap(-1, nbytes))
        for at in range(0, nbytes, STEP):
            file.readinto(into[at : at + STEP])


def loaded(place: Path, found: dict[str, float]) -> None:
    with timed(found, "torch.load: read"):
        torch.load(place / "torch.pt")


def restored(place: Path, state: State, found: dict[str, float]) -> None:
    with timed(found, "gpufit: restore, checked"):
        opened = newest(place / "checkpoints").opened
        assert opened is not None
        with opened:
            again = {name: torch.empty_like(tensor) for name, tensor in state.items()}
            opened.read_many((number, bytes_of(tensor)) for number, tensor in enumerate(again.values()))
    assert all(torch.equal(again[name], state[name]) for name in state)


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
    """A file that was not there. The old one goes later: its blocks and pages would be the new one's, and quick."""
    aside = path.with_suffix(".new")
    yield aside
    os.replace(aside, path)


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
