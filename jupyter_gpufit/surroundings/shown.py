"""How a notebook shows things: `%config InlineBackend.figure_format = "retina"`, `%precision 3`, and their like.

These are traits of IPython's formatters, of matplotlib's backend for notebooks, and one of the shell's. That backend
begins when the first figure is shown; until then its traits stand in the shell's configuration, where it will find
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_BACKEND = "InlineBackend"
_OF_SHELL = {"ast_node_interactivity": "last_expr"}  # the rest is of prompts, histories, colours of a terminal
_PLAIN = (bool, int, float, str, type(None))

Shown = dict[str, dict[str, Any]]  # by class and trait: what differs from the default


def read(ipython: Any) -> Shown:
    shell = ipython.get_ipython()
    if shell is None:
        return {}
    found: Shown = {_BACKEND: dict(shell.config.get(_BACKEND, {}))}
    for one in _shows(shell):
        found[type(one).__name__] = {
            name: value
            for name, trait in one.traits(config=True).items()
            if _is_plain(value := _in_order(getattr(one, name))) and value != _in_order(trait.default(one))
        }
    # `InteractiveShell.ast_node_interactivity = "all"`, as it is often written, puts a text in the trait's place.
    found["shell"] = {name: now for name, default in _OF_SHELL.items() if (now := getattr(shell, name)) != default}
    return {name: {trait: found[name][trait] for trait in sorted(found[name])} for name in found if found[name]}


def write(ipython: Any, wanted: Shown) -> None:
    """Set these, and what else was changed back to its default."""
    shell = ipython.get_ipython()
    if shell is None:
        return
    for one in _shows(shell):
        chosen = wanted.get(type(one).__name__, {})
        for name, trait in one.traits(config=True).items():
            now = _in_order(getattr(one, name))
            value = chosen.get(name, _in_order(trait.default(one)))
            if value != now and _is_plain(now):
                setattr(one, name, value)
    shell.config.pop(_BACKEND, None)
    if _BACKEND in wanted:
        shell.config[_BACKEND].update(wanted[_BACKEND])
    for name, default in _OF_SHELL.items():
        value = wanted.get("shell", {}).get(name, default)
        if value != getattr(shell, name):
            setattr(shell, name, value)


def _shows(shell: Any) -> Iterator[Any]:
    yield from shell.display_formatter.formatters.values()
    backend = getattr(sys.modules.get("matplotlib_inline.config"), _BACKEND, None)
    if backend is not None and backend.initialized():
        yield backend.instance()


def _in_order(value: Any) -> Any:
    """A set's order is another in each process."""
    return sorted(value) if isinstance(value, (set, frozenset)) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(one) for key, one in value.items())
    return all(map(_is_plain, value)) if isinstance(value, (list, tuple)) else isinstance(value, _PLAIN)
