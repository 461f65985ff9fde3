"""Loggers of the notebook's own, and the root's: found by their names, with their level and their handlers.

A handler that cannot travel stays in the notebook, and does nothing in the worker. A module's loggers are that
module's, which sets them up where it is imported; so are the handlers that libraries give the root's. Not covered: the
root's on a standard stream, see surroundings/modes.py; in a snapshot all of them, which surroundings/process.py has.

A logger that logging does not know by its name (`logging.Logger("mine")`, mmengine's) is an object like others.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from typing import Any

from ..kind import Kind, Pickler, Reduced
from . import instances

_STAYS = "a handler of a logger, which cannot go to another process. Make it inside the cell."


class Elsewhere(logging.NullHandler):
    """In the worker, for a handler that stays in the notebook, and is found there again by its number."""


def find(cls: type) -> Kind | None:
    if issubclass(cls, logging.Logger):
        return Kind(reduce=reduce_logger, state=state_of, fill=fill_logger)
    if not issubclass(cls, logging.Handler) or (plain := instances.find(cls)) is None:
        return None
    if cls is Elsewhere:
        return Kind(reduce=plain.reduce)

    def reduce_handler(handler: logging.Handler, pickler: Pickler) -> Reduced:
        return (Elsewhere, ()) if id(handler) in pickler.not_by_name else plain.reduce(handler, pickler)

    return replace(plain, reduce=reduce_handler)


def reduce_logger(logger: logging.Logger, pickler: Pickler) -> Reduced:
    known = is_known(logger)
    made: tuple[Any, ...] = logger.__reduce__() if known else ()  # type: ignore[assignment]
    if known and (pickler.is_snapshot or state_of(logger) is None):
        return made
    if not pickler.back:
        pickler.not_by_name.update({id(one): _STAYS for one in handlers_of(logger) if not _can_travel(one, pickler)})
    return (*made, state_of(logger), None, None, fill_logger) if known else instances.INSTANCE.reduce(logger, pickler)


def is_known(logger: logging.Logger) -> bool:
    """Whether logging has it by its name. It is not asked for: that would make one."""
    return logger is logging.root or logging.root.manager.loggerDict.get(logger.name) is logger


def handlers_of(logger: logging.Logger) -> list[logging.Handler]:
    """Those that are the notebook's, wherever it has set them up."""
    if logger is not logging.root:
        return list(logger.handlers)
    return [one for one in logger.handlers if can_be_kept(one) and not writes_to_a_standard_stream(one)]


def writes_to_a_standard_stream(handler: logging.Handler) -> bool:
    """And does nothing else, so that another process can make its like."""
    if type(handler) is not logging.StreamHandler or type(handler.formatter) not in (logging.Formatter, type(None)):
        return False
    return handler.stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)


def can_be_kept(handler: logging.Handler) -> bool:
    """Whether another process can go on with it, as far as its class and its stream tell."""
    if isinstance(handler, Elsewhere):
        return True
    known = type(handler).__module__ in ("logging", "logging.handlers", "__main__")
    # A library's, made before the cell's output was captured: a new process has made it again.
    known = known and getattr(handler, "stream", None) not in (sys.__stdout__, sys.__stderr__)
    own = type(handler).__module__ == "__main__"  # one that writes above tqdm's bars
    return known and (own or isinstance(handler, logging.StreamHandler | logging.NullHandler))


def _can_travel(handler: logging.Handler, pickler: Pickler) -> bool:
    if not can_be_kept(handler):
        return False
    trial = pickler.beside()
    try:
        trial.dump(handler)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return False
    return not trial.refusals


def state_of(logger: logging.Logger) -> Any:
    """None: it is a module's."""
    if not is_known(logger):
        return instances.INSTANCE.state(logger)
    if logger is logging.root:
        return logger.level, logger.disabled, logger.propagate, handlers_of(logger), list(logger.filters), None
    first = logger.name.partition(".")[0]
    if first != "__main__" and first in sys.modules:
        return None
    above = None if isinstance(logger.parent, logging.RootLogger) else logger.parent
    return logger.level, logger.disabled, logger.propagate, list(logger.handlers), list(logger.filters), above


def fill_logger(logger: logging.Logger, state: Any) -> None:
    if state is None or state_of(logger) is None:
        return  # the module may have been imported on one side only
    if not is_known(logger):
        return instances.INSTANCE.fill(logger, state)
    level, disabled, propagate, handlers, filters, _ = state
    logger.setLevel(level)
    logger.disabled, logger.propagate = disabled, propagate
    ours = handlers_of(logger)
    others = [one for one in logger.handlers if one not in ours]
    arrived = [one for one in handlers if isinstance(one, logging.Handler)]  # one may have been lost
    logger.handlers[:] = others + arrived
    logger.filters[:] = filters
