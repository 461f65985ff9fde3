"""Settings that only calls reach, in compiled code or behind a library's own door: `gc.disable()`, `np.seterr(...)`.

The text of a cell says which calls it means. What one of them has set is what its twin reads: set_x, get_x; setx, getx;
enable, isenabled. Only plain values travel, so that a table of handlers or a generator's state stays what it is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

Twin = tuple[str, str, Any]  # a module, what it is set by, and the value
_SETS = re.compile(r"(set)(_?)(\w+)|(en|dis)able(_?)(\w*)")
_PLAIN = (int, float, str, bool, type(None))
_MANY = 64  # entries of a value
# Whose it is, and in which session, is each process's own; how processes are started is decided by asking for it.
_NOT_ASKED = frozenset({"os", "posix", "multiprocessing"})


def read(texts: Iterable[str], namespace: dict[str, Any]) -> Iterator[Twin]:
    """What holds now, of all that the texts could have set."""
    meant = dict.fromkeys(call for text in texts for call in calls(text))
    for module, name in dict.fromkeys(found for names in meant if (found := _in_module(names, namespace))):
        if module not in _NOT_ASKED and (twin := _twin(sys.modules[module], name)) is not None:
            yield module, name, twin[1]


def now(found: Iterable[Twin]) -> list[Twin]:
    """The same, as they are by now."""
    homes = ((sys.modules.get(module), module, name) for module, name, _ in found)
    twins = ((module, name, _twin(home, name)) for home, module, name in homes if home is not None)
    return [(module, name, twin[1]) for module, name, twin in twins if twin is not None]


def changed(found: Collection[Twin]) -> list[Twin]:
    """Of those that came, what is no more as it came."""
    return [one for one in now(found) if one not in found]


def put(found: Iterable[Twin], *, load: bool) -> Iterator[str]:
    """Set it here; sentences where that cannot be."""
    for module, name, value in found:
        try:
            home = import_module(module) if load else sys.modules.get(module)
            if home is not None and (twin := _twin(home, name)) is not None and twin[1] != value:
                _call(twin[0], value)
        except Exception as error:
            yield f"{module}.{name} does not take {value!r} in this process ({type(error).__name__}: {error})."


@lru_cache(maxsize=512)
def calls(text: str) -> tuple[tuple[str, ...], ...]:
    """Those that set something, as names: torch, backends, set_flags."""
    if not _SETS.search(text):
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    found = (_names(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(names for names in found if names and _SETS.fullmatch(names[-1]))


def _names(node: ast.expr) -> tuple[str, ...]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _in_module(names: tuple[str, ...], namespace: dict[str, Any]) -> tuple[str, str] | None:
    found = namespace.get(names[0])
    if len(names) == 1:  # from socket import setdefaulttimeout
        module, name = getattr(found, "__module__", None), getattr(found, "__name__", None)
        is_there = type(module) is str and type(name) is str and getattr(sys.modules.get(module), name, None) is found
        return (str(module), str(name)) if is_there and module != "__main__" else None
    for name in names[1:-1]:
        found = vars(found).get(name) if isinstance(found, ModuleType) else None
    return (found.__name__, names[-1]) if isinstance(found, ModuleType) and found.__name__ in sys.modules else None


def _twin(module: ModuleType, name: str) -> tuple[Callable[..., Any], Any] | None:
    """What sets it to a value, and its value now."""
    match, held = _SETS.fullmatch(name), vars(module)  # not what a lazy package would import
    assert match is not None
    if match[1]:
        rest = match[3]
        readers = [f"get{match[2]}{rest}", f"is_{rest}", f"is_{rest}_enabled"]
        set_it: Any = held.get(name)
    else:
        rest = match[5] + match[6]
        readers = [f"is{rest}enabled", f"is{rest}_enabled"]
        set_it = partial(_switch, held, rest)
    values = (_value(held.get(reader)) for reader in readers if name in held)
    found = next((value for value in values if value and (match[1] or type(value[0]) is bool)), None)
    return None if found is None else (set_it, found[0])


def _switch(held: dict[str, Any], rest: str, on: bool) -> None:
    held[f"{'en' if on else 'dis'}able{rest}"]()


def _value(reader: Callable[[], Any] | None) -> tuple[Any, ...]:
    """It, if there is one that is plain."""
    try:
        found = () if reader is None else (reader(),)
    except Exception:  # which wants arguments
        return ()
    return found if found and _is_plain(found[0]) else ()


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        value = tuple(value) + tuple(value.values())
    if isinstance(value, (tuple, list)):
        return len(value) <= _MANY and all(isinstance(one, _PLAIN) for one in value)
    return isinstance(value, _PLAIN)


def _call(setter: Callable[..., Any], value: Any) -> None:
    if type(value) is dict:
        setter(**value)
        return
    if isinstance(value, tuple):
        setter(*value)
        return
    setter(value)
