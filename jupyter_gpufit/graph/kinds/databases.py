"""Open databases of sqlite3 and lmdb: the other process opens the same file again, or one in memory with what it holds.

One in the midst of a transaction does not travel, nor one of lmdb that is open for writing. What a cell has written to
a file is in it; no checkpoint can take that back.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from importlib import import_module
from typing import Any

from ..kind import Kind, Pickler, Reduced

_TRANSACTION = "a database in the midst of a transaction. Commit it before, or open it inside the cell."
_ATTACHED = "a database with others attached to it. Open it inside the cell."
_WRITTEN = "a database that this training has written to, which a resume could not take back"
_CURSOR = "a cursor of a database, with a result that may not be read to its end. Make it inside the cell."
_LMDB = "an lmdb environment that is open for writing. Open it with readonly=True, or inside the cell."
_LOOKS = ("isolation_level", "row_factory", "text_factory")
_CLOSED = "an lmdb environment that is closed. Open it again, or delete it."


def find(cls: type) -> Kind | None:
    if issubclass(cls, sqlite3.Connection):
        return _CONNECTION
    if issubclass(cls, sqlite3.Cursor):
        return Kind(reduce=reduce_cursor)
    lmdb = sys.modules.get("lmdb")
    return Kind(reduce=reduce_environment) if lmdb and issubclass(cls, lmdb.Environment) else None


def reduce_connection(connection: Any, pickler: Pickler) -> Reduced:
    try:
        files = _files(connection)
    except sqlite3.ProgrammingError:
        return make_closed, (type(connection),)
    if connection.in_transaction:
        return pickler.refuse(connection, _TRANSACTION)
    path = files.pop("main")
    if files:
        return pickler.refuse(connection, _ATTACHED)
    if path and pickler.is_snapshot and connection.total_changes:
        return pickler.refuse(connection, _WRITTEN)
    return connect_again, (type(connection), path), database_state(connection), None, None, fill_database


def _files(connection: Any) -> dict[str, str]:
    """By the names of the databases; one in memory may say a name that is no place of a file."""
    found = connection.execute("PRAGMA database_list").fetchall()
    return {name: path if os.path.isabs(path) else "" for _, name, path in found if name != "temp"}


def connect_again(cls: Any, path: str) -> Any:
    return sqlite3.connect(path or ":memory:", factory=cls, check_same_thread=False)


def make_closed(cls: Any) -> Any:
    made = connect_again(cls, "")
    made.close()
    return made


def database_state(connection: Any) -> Any:
    """What it holds, where no file does, and how it answers."""
    try:
        held = None if _files(connection)["main"] else connection.serialize()
    except sqlite3.ProgrammingError:
        return None  # closed
    except sqlite3.OperationalError:
        held = b""  # with nothing in it
    return held, {name: getattr(connection, name) for name in _LOOKS}


def fill_database(connection: Any, state: Any) -> None:
    if state is None:
        connection.close()
        return
    held, looks = state
    if held:
        connection.deserialize(held)
    for name, value in looks.items():
        setattr(connection, name, value)


def database_mark(connection: Any) -> Any:
    state = database_state(connection)
    return None if state is None else (hashlib.blake2b(state[0] or b"").digest(), *state[1].values())


def reduce_cursor(cursor: Any, pickler: Pickler) -> Reduced:
    if cursor.description is not None:
        return pickler.refuse(cursor, _CURSOR)
    return type(cursor), (cursor.connection,)


def reduce_environment(environment: Any, pickler: Pickler) -> Reduced:
    try:
        flags = environment.flags()
    except sys.modules["lmdb"].Error:
        return pickler.refuse(environment, _CLOSED)
    if not flags["readonly"]:
        return pickler.refuse(environment, _LMDB)
    how = {name: flags[name] for name in ("subdir", "readonly", "readahead", "lock")}
    return open_environment, (environment.path(), how | {"max_readers": environment.max_readers()})


def open_environment(path: str, how: dict[str, Any]) -> Any:
    return import_module("lmdb").open(path, max_dbs=64, **how)


_CONNECTION = Kind(reduce=reduce_connection, state=database_state, fill=fill_database, mark=database_mark)
