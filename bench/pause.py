"""What a checkpoint's pause costs a training, and what copying beside its steps would cost it instead.

    python bench/pause.py [--layers 12] [--rounds 5]

The training is a transformer with AdamW, 1.5 GB of state by default. Each way copies all of it once, as it is at a safe
point; "stood still" is what the training waited for the copy, there and before the optimizer's step; "slower" is what
it and the next steps took longer than such steps right before; "of processors" the same in seconds of processors, which
a busy machine does not make longer. Nothing is written to a disk: that is the same in all ways.

    the pause        as the product does it: all threads copy, and the training stands still
    beside           a thread copies during forward and backward, and the step waits for the rest. Nothing looks who
                     writes: no way of this kind can be quicker
    watched by torch the same, under a TorchDispatchMode that sees every operation until all is copied
    watched by pages the same, with pages that tell whether they were written to (userfaultfd's WP_ASYNC, Linux 6.7);
                     where that is forbidden, the row is left out

What is exact is another question, which the last lines answer: operations whose numbers are others under a mode that
does nothing, and writes that it does not see.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import mmap
import os
import statistics
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from common import package_root, show_table, write_results
from torch.utils._python_dispatch import TorchDispatchMode

package_root()

from jupyter_gpufit.checkpoint.staging import Staging, copy_all  # noqa: E402 - needs the path above
from jupyter_gpufit.system.processes import with_quick_copies  # noqa: E402

STEPS = 2  # watched after each copy
LARGE = 1 << 20  # bytes
WIDTH, VOCABULARY, LENGTH, BATCH = 768, 50257, 64, 2
Pieces = list[tuple[int, int, int]]  # to this address, from that address, so many bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if (env := with_quick_copies(os.environ)) != os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], env)  # as a worker is started
    training = Training(chosen.layers)
    ways: dict[str, Callable[[Training], float]] = {
        "the pause": the_pause,
        "beside": beside,
        "watched by torch": watched_by_torch,
    }
    try:
        Pages([]).close()
        ways["watched by pages"] = watched_by_pages
    except OSError as error:
        print(f"pages cannot be watched here: {error}")
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    usual, computed = [], []
    for number in range(chosen.rounds + 1):
        for name, way in ways.items():
            begin, began = time.perf_counter(), time.process_time()
            training.steps(STEPS)
            plain, of_processors = time.perf_counter() - begin, time.process_time() - began
            begin, began = time.perf_counter(), time.process_time()
            waited = way(training)
            taken, taken_of_processors = time.perf_counter() - begin, time.process_time() - began
            if number:  # the first warms up
                usual.append(plain)
                computed.append(of_processors)
                found["stood still"][name].append(waited)
                found["slower"][name].append(taken - plain)
                found["of processors"][name].append(taken_of_processors - of_processors)
        print(f"round {number} of {chosen.rounds}", flush=True)
    median = {kind: {name: statistics.median(all) for name, all in of.items()} for kind, of in found.items()}
    step = {"s": statistics.median(usual) / STEPS, "of processors, s": statistics.median(computed) / STEPS}
    print(f"{training.nbytes / 1e9:.2f} GB; a step:", {name: round(one, 3) for name, one in step.items()})
    show_table(("median s", *median), [(name, *(f"{median[kind][name]:.3f}" for kind in median)) for name in ways])
    exact = {"other numbers under a mode": other_numbers(), "an operation, µs": cost_of_a_mode()}
    print(exact)
    about = {"bytes": training.nbytes, "steps": STEPS, "a step": step, "load": os.getloadavg()[0]}
    write_results("pause", {**about, "seconds": median, **exact})


class Training:
    """A transformer, its optimizer, and a buffer that was touched."""

    def __init__(self, layers: int) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Embedding(VOCABULARY, WIDTH),
            *(torch.nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, 0.0, batch_first=True) for _ in range(layers)),
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.optimizer.register_step_pre_hook(lambda *_: self.before_step())
        self.before_step: Callable[[], None] = lambda: None
        self.step()
        self.optimizer.zero_grad()
        state = [value for one in self.optimizer.state.values() for value in one.values()]
        self.tensors = [tensor.detach() for tensor in [*self.net.parameters(), *state]]
        self.nbytes = sum(tensor.nbytes for tensor in self.tensors)
        self.staging = Staging()
        self.staging.reserve(self.nbytes + 64 * len(self.tensors))

    def step(self) -> None:
        loss = self.net(torch.randint(VOCABULARY, (BATCH, LENGTH))).square().mean()
        loss.backward()
        self.before_step()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, many: int) -> float:
        begin = time.perf_counter()
        for _ in range(many):
            self.step()
        return time.perf_counter() - begin

    def pieces(self) -> Pieces:
        found, at = [], self.staging.address
        for tensor in self.tensors:
            found.append((at, tensor.data_ptr(), tensor.nbytes))
            at += -(-tensor.nbytes // 64) * 64
        return found


def the_pause(training: Training) -> float:
    begin = time.perf_counter()
    copy_all(training.pieces())
    stood = time.perf_counter() - begin
    training.steps(STEPS)
    return stood


def beside(training: Training, watching: Callable[[Pieces], Any] | None = None) -> float:
    """Seconds for which the step waited for the copy."""
    begin = time.perf_counter()
    pieces = training.pieces()
    ends = watching(pieces) if watching is not None else None
    stood = [time.perf_counter() - begin]

    def copy() -> None:
        for piece in pieces:
            ctypes.memmove(*piece)  # without the interpreter's lock

    thread = threading.Thread(target=copy)
    thread.start()

    def wait() -> None:
        begin = time.perf_counter()
        thread.join()
        if ends is not None:
            ends()
        stood.append(time.perf_counter() - begin)
        training.before_step = lambda: None

    training.before_step = wait
    training.steps(STEPS)
    return sum(stood)


def watched_by_torch(training: Training) -> float:
    def watching(pieces: Pieces) -> Any:
        mode = Writes({address for _, address, _ in pieces})
        mode.__enter__()
        return lambda: mode.__exit__(None, None, None)

    return beside(training, watching)


def watched_by_pages(training: Training) -> float:
    def watching(pieces: Pieces) -> Any:
        pages = Pages([(address, nbytes) for _, address, nbytes in pieces])

        def ends() -> None:
            assert not pages.written(), "nothing was to write there before the step"
            pages.close()

        return ends

    return beside(training, watching)


class Writes(TorchDispatchMode):
    """Sees which storages an operation writes to, as far as its schema says so."""

    def __init__(self, waiting: set[int]) -> None:
        super().__init__()
        self.waiting = waiting
        self.met = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for number, argument in enumerate(function._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[number] if number < len(args) else kwargs.get(argument.name)
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(tensor, torch.Tensor):
                        self.met += tensor.untyped_storage().data_ptr() in self.waiting
        return function(*args, **kwargs)


class Pages:
    """Pages that the kernel marks when they are written to, whoever writes. See ioctl_userfaultfd(2), pagemap_scan."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        size = mmap.PAGESIZE  # those that others have a part of are written to by them, and are not worth watching
        whole = [(-(-at // size) * size, (at + nbytes) // size * size) for at, nbytes in runs if nbytes >= LARGE]
        self.runs = [(start, end) for start, end in whole if start < end]
        self.fd = ctypes.CDLL(None, use_errno=True).syscall(323, os.O_CLOEXEC | os.O_NONBLOCK | 1)  # for user mode
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        fcntl.ioctl(self.fd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 1 << 15 | 1 << 13, 0))  # WP_ASYNC, WP_UNPOPULATED
        for start, end in self.runs:
            fcntl.ioctl(self.fd, 0xC020AA00, struct.pack("QQQQ", start, end - start, 2, 0))
            fcntl.ioctl(self.fd, 0xC018AA06, struct.pack("QQQ", start, end - start, 1))

    def written(self) -> bool:
        found = ctypes.create_string_buffer(24)
        with open("/proc/self/pagemap", "rb") as file:
            for start, end in self.runs:
                asked = struct.pack("12Q", 96, 0, start, end, 0, ctypes.addressof(found), 1, 1, 0, 2, 0, 2)
                if fcntl.ioctl(file, 0xC0606610, asked_buffer := bytearray(asked)):
                    return True
                del asked_buffer
        return False

    def close(self) -> None:
        os.close(self.fd)


@contextmanager
def a_mode_that_does_nothing() -> Iterator[None]:
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    with Nothing():
        yield


def other_numbers() -> list[str]:
    """Operations whose result or gradient a mode changes: autograd takes other formulas where one is on."""
    return [name for name, function in OPERATIONS.items() if not same_bits(function)]


def same_bits(function: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    def run() -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        given = torch.rand(16, 65, requires_grad=True)
        result = function(given)
        (result * torch.rand_like(result)).sum().backward()
        assert given.grad is not None
        return result.detach(), given.grad

    plain = run()
    with a_mode_that_does_nothing():
        under = run()
    return all(torch.equal(one, other) for one, other in zip(plain, under, strict=True))


OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cumprod": lambda x: x.cumprod(1),
    "prod": lambda x: x.prod(1),
    "norm": lambda x: x.norm(dim=1),
    "matmul": lambda x: x @ x.T,
    "logsumexp": lambda x: x.logsumexp(1),
    "svdvals": torch.linalg.svdvals,
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (65,)),
}


def cost_of_a_mode() -> dict[str, float]:
    tensor = torch.rand(4)

    def each() -> float:
        begin = time.perf_counter()
        for _ in range(20_000):
            tensor.add_(1)
        return (time.perf_counter() - begin) / 20_000 * 1e6

    plain = min(each() for _ in range(3))
    with a_mode_that_does_nothing():
        return {"plain": plain, "under a mode": min(each() for _ in range(3))}


if __name__ == "__main__":
    main()
