"""Magics that earlier cells gave to the shell: by a decorator, an extension, `%alias` or `%alias_magic`.

A worker's shell has those of a fresh one, which every shell makes for itself. The others are told by what they are
made of: a function, a class of magics, or an alias.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from types import FunctionType, MethodType
from typing import Any

Told = tuple[str, str, str, Any]  # line or cell, the magic's name, what it is, and what it is made of

functions: dict[tuple[str, str], Any] = {}  # of this process, by line or cell and name: also where there is no shell


def read(named: Collection[str]) -> Iterator[Told]:
    """All of the notebook's own, and what else goes by one of these names; not those that any shell has loaded."""
    shell = _shell()
    kinds = {} if shell is None else shell.magics_manager.magics
    for kind, magics in kinds.items():
        for name, magic in magics.items():
            told = _told(shell, magic)
            if told is not None and (name in named or _is_notebooks(told[1])):
                yield kind, name, *told


def put(found: Collection[Told]) -> str:
    """Register them here; a sentence on what cannot be."""
    functions.update({(kind, name): what for kind, name, form, what in found if form == "function"})
    shell = _shell()
    failed: dict[str, str] = {}
    for kind, name, form, what in found if shell is not None else ():
        try:
            _PUTTING[form](shell, kind, name, what)
        except Exception as error:  # of a class's own constructor
            failed[name] = f"{type(error).__name__}: {error}"
    if not failed:
        return ""
    why = next(iter(failed.values()))
    return f"Magics of earlier cells cannot be registered in this process: %{', %'.join(failed)} ({why})."


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def _told(shell: Any, magic: Any) -> tuple[str, Any] | None:
    """None: it is made anew in each shell."""
    from IPython.core.alias import Alias
    from IPython.core.magic import MagicAlias, Magics

    match magic:
        case FunctionType():
            return "function", magic
        case Alias():
            return "alias", magic.cmd
        case MagicAlias():
            return "alias of a magic", (magic.magic_name, magic.magic_kind, magic.magic_params)
        case MethodType(__self__=Magics() as one) if type(one).__module__.partition(".")[0] != _OURS:
            return "class", (type(one), _state(shell, one) if _is_notebooks(type(one)) else {})
    return None


def _state(shell: Any, one: Any) -> dict[str, Any]:
    """What a class's own methods have given an object of magics."""
    from IPython.core.magic import Magics, magics_class

    plain = vars(magics_class(type("Plain", (Magics,), {}))(shell))
    return {name: value for name, value in vars(one).items() if name not in plain}


def _is_notebooks(what: Any) -> bool:
    made = what[0] if isinstance(what, tuple) else what
    return getattr(made, "__module__", "") == "__main__"


def _put_function(shell: Any, kind: str, name: str, function: Any) -> None:
    shell.register_magic_function(function, kind, name)


def _put_alias(shell: Any, kind: str, name: str, command: str) -> None:
    if getattr(shell.alias_manager.get_alias(name), "cmd", None) != command:
        shell.alias_manager.define_alias(name, command)


def _put_alias_of_magic(shell: Any, kind: str, name: str, what: tuple[str, str, str | None]) -> None:
    shell.magics_manager.register_alias(name, *what)


def _put_class(shell: Any, kind: str, name: str, what: tuple[type, dict[str, Any]]) -> None:
    made, state = what
    there = shell.magics_manager.registry.get(made.__name__)
    if type(there) is not made:
        shell.register_magics(made)
        there = shell.magics_manager.registry[made.__name__]
    vars(there).update(state)


_OURS = __package__.partition(".")[0]
_PUTTING: dict[str, Callable[[Any, str, str, Any], None]] = {
    "function": _put_function,
    "alias": _put_alias,
    "alias of a magic": _put_alias_of_magic,
    "class": _put_class,
}
