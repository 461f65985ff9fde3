"""What waits in a trace: for another process in vain, for a thread or in one not."""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import threading
from typing import Any

import pytest

from jupyter_gpufit.estimate.tracing import processes
from jupyter_gpufit.estimate.tracing.failures import limit_of_ours
from tests.estimate.traced import traced


def test_a_thread_of_the_cells_waits_for_what_the_cell_gives_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of tensorboardX does, and dies of any other exception than `queue.Empty`."""
    monkeypatch.setattr(processes, "_PATIENCE", 0.01)
    get = processes._impatient(multiprocessing.queues.Queue.get)
    events: Any = multiprocessing.Queue()
    free = processes._Semaphore(1, 0, 1, "", False)
    got: list[object] = []
    waiting = [
        threading.Thread(target=lambda one=one: got.append(one()), daemon=True)
        for one in (lambda: get(events), free.acquire)
    ]
    for thread in waiting:
        thread.start()

    with pytest.raises(processes.Waits) as waits:
        get(multiprocessing.Queue())
    said = "It waits for another process (an entry of a queue), and a trial run has no others."
    assert limit_of_ours(waits.value) == said
    events.put("a scalar")
    free.release()
    for thread in waiting:
        thread.join(5)

    assert sorted(map(str, got)) == ["True", "a scalar"]


SERVED = """
import multiprocessing as mp
import torch
class Replay(mp.Process):
    def __init__(self):
        super().__init__()
        self.pipe, self.worker_pipe = mp.Pipe()
        self.sampled = 0
        self.start()
    def run(self):
        self.pipe.close()
        while (asked := self.worker_pipe.recv()) is not None:
            self.sampled += 1
            self.worker_pipe.send([[float(self.sampled)] * 8] * asked)
    def sample(self, count):
        self.pipe.send(count)
        return self.pipe.recv()
replay = Replay()
net = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    net(torch.tensor(replay.sample(16)).cuda()).sum().backward()
    optimizer.step()
assert replay.sampled == 0  # that is counted where it runs
replay.pipe.send(None)
replay.join()
"""


def test_a_process_of_a_class_of_its_own_answers_through_its_pipe() -> None:
    """As DeepRL's replay does."""
    trace = traced(SERVED)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
