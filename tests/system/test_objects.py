"""All objects are looked at while other threads make some."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sized

import pytest

from jupyter_gpufit.system.objects import but_tuples, kinds

TIMES = 20


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("look", [kinds, but_tuples])
def test_a_tuple_that_another_thread_makes_meanwhile_is_made(look: Callable[[], Sized], often: None) -> None:
    many = [[one] for one in range(50_000)]  # else a look is over before another thread has its turn
    stopped, broken, made = threading.Event(), [], [0]

    def make() -> None:
        while not stopped.is_set():
            try:
                made[0] += len(tuple(one for one in range(2000)))
            except SystemError as error:
                broken.append(error)

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    try:
        for _ in range(TIMES):
            assert look()
    finally:
        stopped.set()
        maker.join()

    assert broken == []
    assert made[0] and many


@pytest.mark.parametrize("look", [kinds, but_tuples])
def test_so_it_is_where_garbage_is_collected_in_the_middle(look: Callable[[], Sized], often: None) -> None:
    here, stopped, broken, made = threading.get_ident(), threading.Event(), [], threading.Event()

    def make() -> None:
        while not stopped.is_set():
            try:
                if tuple(one for one in range(2000)):
                    made.set()
            except SystemError as error:
                broken.append(error)

    def let_others_run(*_: object) -> None:
        """As a finalizer does, or a callback of a weak reference."""
        if threading.get_ident() == here:
            time.sleep(0.0001)

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    made.wait()
    before = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(1)  # as often as can be
    try:
        for _ in range(TIMES):
            assert look()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(let_others_run)
        stopped.set()
        maker.join()

    assert broken == []
    assert gc.isenabled()


def test_what_is_found() -> None:
    class Found:
        pass

    found = Found()

    assert Found in kinds()
    assert any(one is found for one in but_tuples())


@pytest.mark.parametrize("look", [kinds, but_tuples])
def test_no_object_is_asked_what_it_is(look: Callable[[], Sized]) -> None:
    asked = []

    class Own:
        @property  # type: ignore[misc]  # as a proxy of the cell has it
        def __class__(self) -> type:
            asked.append(self)
            raise RuntimeError("code of the cell")

    own, gone = Own(), Own()
    proxy = weakref.proxy(gone)
    del gone

    assert look()
    assert asked == []
    del own, proxy
