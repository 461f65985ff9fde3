"""Futures of `concurrent.futures`: one that is done is its result or its error, and belongs to no pool any more."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import why_not


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_future) if cls is Future else None


def reduce_future(future: Any, pickler: Pickler) -> Reduced:
    if not future.done():
        return pickler.refuse(future, why_not(Future) or "")
    return make_done, (), (future.cancelled(), future._result, future._exception), None, None, fill_done


def make_done() -> Future[Any]:
    return Future()


def fill_done(future: Future[Any], state: tuple[bool, Any, BaseException | None]) -> None:
    cancelled, result, error = state
    if cancelled:
        future.cancel()
        future.set_running_or_notify_cancel()
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
