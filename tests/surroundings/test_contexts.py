"""What calls set in a context of Python's."""

from __future__ import annotations

import decimal
from contextvars import ContextVar, copy_context

from jupyter_gpufit.surroundings import contexts

KEPT: ContextVar[int] = ContextVar("kept", default=1)
OTHER: ContextVar[int] = ContextVar("other")


def test_what_is_set_in_a_cells_context_is_set_once_where_the_next_one_begins() -> None:
    found: contexts.Contexts = {}

    def cell() -> None:
        OTHER.set(1)
        with contexts.noted(found):
            KEPT.set(7)
            decimal.getcontext().prec = 5
            decimal.setcontext(decimal.Context(prec=5))

    def next_cell() -> tuple[int, int, int | None]:
        contexts.put(found)
        return KEPT.get(), decimal.getcontext().prec, OTHER.get(None)

    copy_context().run(cell)
    assert copy_context().run(next_cell) == (7, 5, None) and not found and KEPT.get() == 1
