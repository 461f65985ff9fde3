"""Generators that are suspended at a `yield`, of code that the program rewrote."""

from __future__ import annotations

from collections.abc import Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from ...graph import midway
from ...graph.kind import Kind, Reduced
from ...program import generators
from ...program.values import GeneratorRecord

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_generator) if cls is GeneratorType else None


def reduce_generator(generator: Any, pickler: SnapshotPickler) -> Reduced:
    program = pickler.program
    is_rewritten = program.unit_of(generator.gi_code) is not None
    if not is_rewritten and (recipe := midway.unmade(generator)) is not None:
        return midway.make_generator, recipe
    if (inner := midway.inner_of(generator)) is not None:
        return midway.go_on, (inner,)
    if (parts := midway.expression(generator)) is not None:
        return midway.make_expression, parts
    waits = midway.waiting(generator)
    if waits is None and pickler.name and not is_rewritten and generator.gi_frame is not None:
        waits = midway.state_of(generator)  # of code as its author wrote it: as it would go to the notebook
    if waits is not None:
        names = generator.__name__, generator.__qualname__
        return midway.make_parked, names, tuple(waits), None, None, midway.fill_parked
    if pickler.name and generator.gi_frame is not None and not is_rewritten:
        # In a variable, it will be there at the next safe point, too; one that a loop has comes to its end.
        line = generator.gi_frame.f_lineno
        what = f"a generator ({generator.__qualname__}, line {line}), whose code was not made to be left midway"
        return pickler.refuse(generator, what)
    found = generators.record(generator, program)
    if found is None:
        return generators.create, (program, "", {})
    state = (pickler.restoring, program, found)
    code = generator.gi_code
    home = pickler.ran.home(generator.gi_frame.f_globals) if pickler.ran.is_run(code.co_filename) else None
    return generators.create, (program, found.uid, found.cells, home), state, None, None, prime_later


def prime_later(generator: Generator[Any], state: tuple[Restoring, Any, GeneratorRecord]) -> None:
    """It runs to where it was suspended, for which all that it refers to must be there."""
    restoring, program, found = state
    restoring.last.append(lambda: generators.prime(generator, found, program))
