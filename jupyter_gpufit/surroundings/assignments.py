"""The attributes of modules and of library classes that the text of cells assigns: `torch.nn.Linear.forward = mine`.

Found in whatever module they are, also in those whose changes are not looked for.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from .holders import Place

_NOT_TO_BE_SET = frozenset({"sys", "builtins"})  # streams, tables of modules: each process's own; argv goes by itself


def assigned(texts: Iterable[str], namespace: dict[str, Any]) -> Iterator[tuple[Place, str, Any]]:
    """Where it stands, its name, and the value that it has by now."""
    for first, *path, last in dict.fromkeys(target for text in texts for target in targets(text)):
        home = namespace.get(first)
        steps: list[str] = []
        if isinstance(home, type) and home.__module__ != "__main__":
            module, steps = home.__module__, home.__qualname__.split(".")
        elif isinstance(home, ModuleType):
            module = home.__name__
        else:
            continue
        for name in path:
            home = getattr(home, name, None)
            if isinstance(home, ModuleType):
                module, steps = home.__name__, []
            else:
                steps.append(name)
        if home is not None and module not in _NOT_TO_BE_SET and hasattr(home, last):
            own = vars(home).get(last, getattr(home, last)) if hasattr(home, "__dict__") else getattr(home, last)
            yield (module, tuple((".", name) for name in steps)), last, own


@functools.lru_cache(maxsize=512)
def targets(text: str) -> tuple[tuple[str, ...], ...]:
    """What is assigned, as names: torch, nn, Linear, forward."""
    try:
        return targets_in(ast.parse(text))
    except (SyntaxError, ValueError):
        return ()


def targets_in(tree: ast.AST) -> tuple[tuple[str, ...], ...]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.append(_chain(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found.append(_set_by(node))
    return tuple(names for names in found if names)


def _chain(node: ast.expr) -> tuple[str, ...]:
    """Nothing where it does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _set_by(call: ast.Call) -> tuple[str, ...]:
    match call.args:
        case [home, ast.Constant(value=str(name)), _] if names := _chain(home):
            return (*names, name)
    return ()
