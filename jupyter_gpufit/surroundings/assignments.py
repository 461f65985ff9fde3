"""The attributes of modules and of library classes that the text of cells assigns: `torch.nn.Linear.forward = mine`.

Found in whatever module they are, also in those whose changes are not looked for.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from .changes import Change
from .holders import Place, own_names

_OF_CELL_MAGICS = ("run_cell_magic", "awaited")  # the second where a cell waits for it
_CODE = (FunctionType, MethodType, partial, type)  # what is taken by name to be called
_OURS = __package__.partition(".")[0] + "."
_PLAIN = (int, float, str, bool, type(None))


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
        # What is not among its own it keeps elsewhere, and stood there in its own way: pd.options, torch.backends.
        held = own_names(home) or {}
        if last in held:
            own = held[last]
            # What `cuda` means is each process's own, and so are sys's streams and tables; argv goes by itself.
            ours = str(getattr(own, "__module__", "")).startswith(_OURS)
            if not ours and (module != "sys" or isinstance(own, (*_PLAIN, FunctionType))):
                yield (module, tuple((".", name) for name in steps)), last, own


def taken_over(texts: Iterable[str], namespace: dict[str, Any]) -> Iterator[Change]:
    """Where modules that were imported later took what a cell had assigned: by its name, or as a base of a class.

    They are imported before it is assigned elsewhere, and would take there what was replaced.
    """
    code = [one for one in assigned(texts, namespace) if issubclass(type(one[2]), _CODE)]
    found = {id(value): (place, name) for place, name, value in code}
    # Python's own, and what libraries call otherwise (`module.tosequence = list`), all have without having taken it.
    common = {id(value) for _, name, value in code if _is_elsewhere(name, value)}
    for module in [*sys.modules.values()] if found else ():
        names = own_names(module) if isinstance(module, ModuleType) and module.__name__ != "__main__" else None
        at = getattr(module, "__name__", "")
        for name, value in [*(names or {}).items()]:
            place, given = found.get(id(value), ((at, ()), ""))
            if place != (at, ()) and (id(value) not in common or name == given):
                yield (at, ()), ("names", ({name: value}, []))
            bases = type.__getattribute__(value, "__bases__") if issubclass(type(value), type) else ()
            taken = any(id(one) in found and id(one) not in common for one in bases)
            if taken and getattr(value, "__module__", "") == at:
                yield (at, ((".", name),)), ("names", ({"__bases__": bases}, []))


def _is_elsewhere(name: str, value: Any) -> bool:
    """Whether its own module has it under another name than the one that it was given."""
    own = getattr(value, "__qualname__", "")
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    return own != name and module is not None and module.__name__ != "__main__" and getattr(module, own, None) is value


@functools.lru_cache(maxsize=512)
def with_bodies(text: str) -> tuple[str, ...]:
    """A cell's text and, where it is a magic's, that of the cell below it: what an earlier training set holds, too."""
    if not any(name in text for name in _OF_CELL_MAGICS):
        return (text,)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    found = [text]
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr=name), args=[*_, ast.Constant(value=str(body))]):
                    if name in _OF_CELL_MAGICS:
                        found += with_bodies(body if shell is None else shell.transform_cell(body))
    return tuple(found)


@functools.lru_cache(maxsize=512)
def targets(text: str) -> tuple[tuple[str, ...], ...]:
    """What is assigned, as names: torch, nn, Linear, forward."""
    try:
        return targets_in(ast.parse(text))
    except (SyntaxError, ValueError):
        return ()


def targets_in(tree: ast.AST) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.append(_chain(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found += _set_by(node, tree)
    return tuple(names for names in found if names)


def _chain(node: ast.expr) -> tuple[str, ...]:
    """Nothing where it does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _set_by(call: ast.Call, tree: ast.AST) -> Iterator[tuple[str, ...]]:
    """With a name that is not written there (`for name in ("Mapping", ...): setattr(collections, name, ...)`): any text
    of the cell that is one. To be set once more harms none."""
    match call.args:
        case [home, ast.Constant(value=str(name)), _] if names := _chain(home):
            yield (*names, name)
        case [home, _, _] if names := _chain(home):
            texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant))
            yield from ((*names, text) for text in texts if isinstance(text, str) and text.isidentifier())
