"""Values, arrays, locks and events that multiprocessing shares, and C data: there and back."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import GraphMemory, Reply, bring_into, receive, ship

from .crossing import Worker, cross_here, notebook

MADE = """
import ctypes, multiprocessing as mp, os
import numpy as np, torch
value, double = mp.Value('i', 3), mp.Value('d', 0.5, lock=False)
array, raw = mp.Array(ctypes.c_float, 30), mp.RawArray('i', range(5))
view = np.ctypeslib.as_array(array.get_obj()).reshape(5, 6)
tensor = torch.from_numpy(view)
plain = np.zeros(30)
"""
IN_A_CHILD = "\npid = os.fork()\nif not pid:\n    {}\n    os._exit(0)\nos.waitpid(pid, 0)\n"


def test_they_come_back_as_the_notebooks_own() -> None:
    namespace = notebook(MADE)
    before = {name: namespace[name] for name in ("value", "double", "array", "raw", "view")}

    cross_here(namespace, "value.value += 1; double.value = 2.5; array[7] = 9; raw[4] = 40; tensor[0, 0] = 5")

    assert {name: namespace[name] for name in before} == before
    assert (namespace["value"].value, namespace["double"].value, list(namespace["raw"])) == (4, 2.5, [0, 1, 2, 3, 40])
    assert namespace["view"][1, 1] == 9 and namespace["array"][0] == 5 and namespace["tensor"][1, 1] == 9


@pytest.mark.parametrize("in_child", ["tensor[2, 2] = 7", "array[14] = 7", "view[2, 2] = 7"])
def test_what_a_forked_process_writes_is_seen_where_it_was_shared_and_only_there(in_child: str) -> None:
    namespace = notebook(MADE)
    cell = IN_A_CHILD.format(f"{in_child}; value.value = 8; raw[0] = 3; plain[0] = 1") + "seen = plain[0]"

    cross_here(namespace, cell)

    assert namespace["view"][2, 2] == 7 and namespace["tensor"][2, 2] == 7 and namespace["array"][14] == 7
    assert (namespace["value"].value, namespace["raw"][0], namespace["seen"]) == (8, 3, 0)


@pytest.mark.slow(2)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_cell_made_is_shared_in_the_notebook_too(worker: Worker, tmp_path: Path, restarted: bool) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "os": os, "times": 2}
    if restarted:
        worker.run(ship(["os", "times"], namespace), MADE, save=tmp_path)
        namespace = {"__name__": "__main__"}
        bring_into(namespace, Reply.open(tmp_path))
    else:
        worker.cross(namespace, MADE, "os", "times")

    exec(IN_A_CHILD.format("array[3] = 4; view[0, 0] = 2; value.value = 6; plain[0] = 1"), namespace)

    assert namespace["tensor"][0, 3] == 4 and namespace["array"][0] == 2 and namespace["value"].value == 6
    assert namespace["plain"][0] == 0
    if restarted:
        again: dict[str, Any] = {"__name__": "__main__"}
        bring_into(again, Reply.open(tmp_path))
        assert again["array"][0] == 0 and again["value"].value == 3  # what was saved is nobody's to change


def test_many_small_ones_and_others_between_them_keep_apart() -> None:
    namespace = notebook(
        MADE, "many = [mp.Value('i', at) for at in range(50)]; kept = [np.full(3, at) for at in range(50)]"
    )

    cross_here(namespace, IN_A_CHILD.format("for at in range(50): many[at].value += 1; kept[at] += 1"))

    assert [one.value for one in namespace["many"]] == [at + 1 for at in range(50)]
    assert all((one == at).all() for at, one in enumerate(namespace["kept"]))


def test_locks_events_and_counts_are_as_they_were() -> None:
    namespace = notebook(
        "import multiprocessing as mp\nlock, again, condition = mp.Lock(), mp.RLock(), mp.Condition()\n"
        "event, count, bounded = mp.Event(), mp.Semaphore(3), mp.BoundedSemaphore(2)\n"
        "count.acquire(); bounded.acquire()"
    )
    event, count = namespace["event"], namespace["count"]

    cross_here(
        namespace,
        "with lock, again, condition: condition.notify_all()\nevent.set(); count.release(); count.release()\n"
        "bounded.release()\ntry: bounded.release()\nexcept ValueError: over = True",
    )

    assert namespace["event"] is event and event.is_set() and namespace["over"]
    assert namespace["count"] is count and count.get_value() == 4 and namespace["bounded"].get_value() == 2


def test_c_data_of_ones_own_travels_unless_it_points_somewhere() -> None:
    namespace = notebook(
        "import ctypes\nnumbers, text = (ctypes.c_int * 3)(1, 2, 3), ctypes.create_string_buffer(b'abc', 8)\n"
        "grid = (ctypes.c_double * 2 * 3)()\n"
    )
    names = ("ctypes", "numbers", "text", "grid")

    cross_here(namespace, "numbers[1] = 7; grid[2][1] = 0.5; seen = text.value", *names)

    assert (list(namespace["numbers"]), namespace["grid"][2][1], namespace["seen"]) == ([1, 7, 3], 0.5, b"abc")


class Held(ctypes.Structure):
    _fields_ = (("size", ctypes.c_int), ("data", ctypes.c_void_p))


@pytest.mark.parametrize(
    "made", [ctypes.c_char_p(b"x"), (ctypes.c_void_p * 2)(), Held(), ctypes.pointer(ctypes.c_int())]
)
def test_c_data_that_points_somewhere_is_refused(made: Any) -> None:
    with pytest.raises(CannotTravel, match="a handle of a C library"):
        ship(["made"], {"__name__": "__main__", "made": made})


@pytest.mark.parametrize(
    "taken", ["lock = mp.Lock(); lock.acquire()", "lock = mp.Value('i', 0); lock.get_lock().acquire()"]
)
def test_a_lock_that_somebody_holds_is_refused(taken: str) -> None:
    namespace = notebook(f"import multiprocessing as mp\n{taken}")

    with pytest.raises(CannotTravel, match="lock"):
        ship(["lock"], namespace)


@pytest.mark.parametrize(
    "made", ["mp.Value('i', 0)", "mp.RawArray('i', 3)", "mp.Lock()", "mp.Event()", "mp.Semaphore(2)"]
)
def test_what_a_living_process_may_share_is_refused(made: str) -> None:
    namespace = notebook(f"import multiprocessing as mp\nshared = {made}")
    stop = multiprocessing.Event()
    child = multiprocessing.get_context("fork").Process(target=stop.wait, daemon=True)
    child.start()
    try:
        with pytest.raises(CannotTravel, match="this process's children"):
            ship(["shared"], namespace)
    finally:
        stop.set()
        child.join()
    ship(["shared"], namespace)


def test_what_only_tries_something_out_shares_nothing() -> None:
    namespace = notebook(MADE)
    shipment = ship(["value", "os"], namespace)
    there: dict[str, Any] = {}
    memory = GraphMemory([os.dup(fd) for fd in shipment.memory.fds])
    receive(shipment.graph, memory, there, private=True)

    there["value"].value = 9

    assert namespace["value"].value == 3
    fresh: dict[str, Any] = {}
    receive(shipment.graph, shipment.memory, fresh)
    assert fresh["value"].value == 3
