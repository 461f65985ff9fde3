"""What functions under lru_cache remember: a random draw that was cached is not to be drawn again.

Not covered: how often a cache was asked, `cache_info()`; and caches of modules, whose contents nobody can put back.
Those of the user's own modules are told of.
"""

from __future__ import annotations

import functools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.caches import Answering, Call, calls_of, fill, has_its_name
from ...system.packages import file_of
from ..own_files import homes, is_own

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_cached) if cls is functools._lru_cache_wrapper else None


def reduce_cached(fn: Any, pickler: SnapshotPickler) -> Reduced:
    if has_its_name(fn, pickler):
        if _is_own(fn) and fn.cache_info().currsize:
            _tell(fn, pickler)
        return NotImplemented
    parameters, calls = fn.cache_parameters(), calls_of(fn)
    if len(calls) != fn.cache_info().currsize or not _can_be_saved(calls, fn, pickler):
        _tell(fn, pickler)
        calls = []
    args = (fn.__wrapped__, parameters["maxsize"], parameters["typed"])
    return make_cached, args, (pickler.restoring, dict(fn.__dict__), calls), None, None, fill_cached


def _can_be_saved(calls: list[Call], fn: Any, pickler: SnapshotPickler) -> bool:
    """Or it is a file or the like, which the function opens again; those must not keep a training from being saved."""
    if id(fn) in pickler.tried:
        return True  # what it keeps leads to itself: it is being tried
    trial = type(pickler)(pickler.program, pickler.namespace, lambda address: None)
    trial.tried = pickler.tried | {id(fn)}
    try:
        trial.dump(calls)
    except Exception:
        return False
    return not trial.refusals


def _is_own(fn: Any) -> bool:
    file = file_of(sys.modules.get(fn.__module__))
    return file != "" and is_own(file, homes())


def _tell(fn: Any, pickler: SnapshotPickler) -> None:
    pickler.remarks.append(
        f"What {fn.__name__}() keeps by its lru_cache does not go along: from a checkpoint it is computed again."
    )


def make_cached(fn: Any, limit: int | None, typed: bool) -> Any:
    made = functools.lru_cache(limit, typed)(Answering(fn))
    functools.update_wrapper(made, fn)
    return made


def fill_cached(made: Any, state: tuple[Restoring, dict[str, Any], list[Call]]) -> None:
    restoring, own, calls = state
    made.__dict__.update(own)

    restoring.last.append(partial(fill, made, calls))  # what it was asked for must be whole, to be hashed
