"""What would make a restored training go another way without a word: each is found, and refused, deferred or told."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import NotHere
from ..graph.ids import Memo
from ..graph.paths import where
from ..graph.refusals import waits_in_a_pool
from ..system.packages import file_of
from .orders import Order, by_value, kept_by_pickle, order_of
from .own_files import homes, is_own

Problem = tuple[str, str]  # where it is, and a sentence
Roots = Callable[[], Mapping[str, Any]]
_HARMLESS = ("gpufit", "IPython", "Tmonitor", "MLflow")  # threads; MLflow's send what was logged, wherever they stand


def check_moment() -> None:
    """Raise NotHere if this thread or process is where no snapshot can be taken."""
    torch = sys.modules.get("torch")
    if torch is not None:
        if torch.is_autocast_cache_enabled() and any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
            raise NotHere(
                "the loop runs inside torch.autocast, whose copies of the weights cannot be saved."
                " Put `with torch.autocast(...)` into the loop, or give it cache_enabled=False."
            )
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            raise NotHere("torch.distributed is in use, and no process group can be saved yet, nor one of one process.")
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.main_thread() or thread.name.startswith(_HARMLESS):
            continue
        if not waits_in_a_pool(thread):
            raise NotHere(f"the thread {thread.name!r}, which the cell started, still runs.")


def threads_of_the_user() -> list[threading.Thread]:
    """Those that run code of the user's."""
    return [
        thread
        for thread in threading.enumerate()
        if _is_of_user(type(thread)) or _is_of_user(getattr(thread, "_target", None))
    ]


def threads_left_behind() -> list[str]:
    """Remarks about the daemon ones: another process does not have them."""
    return [
        f"The thread {thread.name!r}, which the cell started, does not go along: from a checkpoint the training goes on"
        " without it. Start it inside the loop where it is not alive, or keep what it does in the loop."
        for thread in threads_of_the_user()
        if thread.daemon
    ]


def finalizers_left_behind() -> list[str]:
    """Remarks about what was to be called when an object goes: weakref.finalize() belongs to its process."""
    kept = list(weakref.finalize._registry.values())  # type: ignore[attr-defined]
    names = dict.fromkeys(getattr(one.func, "__name__", "a function") for one in kept if _is_of_user(one.func))
    return [
        f"weakref.finalize is to call {name}() in this process only: a training that goes on from a checkpoint does not"
        " call it."
        for name in names
    ]


def _is_of_user(code: Any) -> bool:
    """Whether a class or function is defined in the notebook or in a module of the user's own."""
    module = str(getattr(code, "__module__", ""))
    file = file_of(sys.modules.get(module))
    return module == "__main__" or (file != "" and is_own(file, homes()))


def orders_of_sets(memo: Memo, roots: Roots) -> tuple[list[tuple[Any, Order]], list[str]]:
    """The sets that need help to keep their order; and, of those that cannot have it again, a remark."""
    orders: list[tuple[Any, Order]] = []
    lost: list[Any] = []
    for _, one in memo.values():
        if not isinstance(one, set | frozenset) or not by_value(one) or kept_by_pickle(one):
            continue
        if isinstance(one, set) and (order := order_of(one)) is not None:
            orders.append((one, order))
        else:
            lost.append(one)
    places = [place for one in lost[:20] if (place := where(roots(), one)) is not None]  # not those in code
    return orders, [
        f"{path} will be gone through in another order when the training goes on. If the order matters, use a list."
        for _, path in places
    ]
