"""The API's description (OpenAPI) and the panel's types (TypeScript), both made of the classes in `wire`.

    python -m jupyter_gpufit.server.contract        writes labextension/src/words/schema.ts; a test fails when it is old

OpenAPI has no words for a WebSocket: its messages are among the schemas, and `events` is told in the text at the top.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..actions.facts import RunFacts
from ..actions.possible import Can, Target
from ..actions.status import ClaimView, RoomView, TicketView
from ..jobs import live
from ..jobs.record import LastCheckpoint
from ..jobs.state import BEFORE, GOING, LEFT, OVER, STATES, State
from ..jobs.verbs import MAY, WORDS, May, Verb
from . import wire

TARGET = Path(__file__).parents[2] / "labextension" / "src" / "words" / "schema.ts"
LARGEST = 2**53  # an integer that JavaScript tells from its neighbours
MOST_POINTS = 4000  # of a curve, in one answer
WIDTH = 80  # of a line of TypeScript

# Where a class's own name would be another's, or says how it came about rather than what it is.
_NAMES: Mapping[type, str] = {
    ClaimView: "Claim",
    TicketView: "Ticket",
    RoomView: "Room",
    live.Memory: "JobMemory",
    LastCheckpoint: "Checkpoint",
}
MESSAGES = (wire.StatusMessage, wire.EntriesMessage, wire.SaidMessage, wire.ProblemMessage)
_TOP = (
    *(
        wire.WireStatus,
        wire.WireJournal,
        wire.WireCurves,
        wire.PickBody,
        wire.RemoveBody,
        wire.ActionBody,
        wire.WireSaid,
        wire.Refused,
    ),
    *MESSAGES,
    *(wire.FollowFrom, Can, Target, RunFacts),
)

_SETS: Mapping[str, tuple[frozenset[State], str]] = {
    "BEFORE": (BEFORE, "Nothing of the job has run yet."),
    "GOING": (GOING, "It holds its device, and its cell runs."),
    "LEFT": (LEFT, "Its worker said how it left."),
    "OVER": (OVER, "Nobody trains it."),
}

_ABOUT = """\
What the panel of jupyter_gpufit reads and does. Below the base URL of a Jupyter server, at `jupyter-gpufit/api/`.

`events` is a WebSocket. The server sends a `StatusMessage` when something has changed (once a second, sooner after an
action or a change in the lab, and every ten seconds at least), an `EntriesMessage` for each journal that the client
follows, a `SaidMessage` for what an action says after it was answered, and a `ProblemMessage` where the client made no
sense. The client sends `{"follow": <FollowFrom>}` and `{"unfollow": <job's id>}`.
"""


def name_of(cls: type) -> str:
    return _NAMES.get(cls, cls.__name__.removeprefix("Wire"))


def classes(top: Iterable[type] = _TOP) -> dict[str, type]:
    """All classes by the name they have in the API, those that others refer to first."""
    found: dict[str, type] = {}
    for cls in top:
        for hint in get_type_hints(cls).values():
            found |= classes([part for part in _parts(hint) if isinstance(part, type) and is_dataclass(part)])
        found[name_of(cls)] = cls
    return found


def _parts(hint: Any) -> Iterable[Any]:
    yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _comments(cls: type) -> dict[str, str]:
    """What stands behind the fields in the source: mostly units."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        for line in inspect.getsource(base).splitlines():
            if match := re.fullmatch(r"    (\w+): [^#]*#\s*(.*)", line):
                found[match[1]] = match[2]
    return found


# OpenAPI --------------------------------------------------------------------------------------------------------------


def description(version: str) -> dict[str, Any]:
    """The OpenAPI description."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_gpufit", "version": version, "description": _ABOUT},
        "servers": [{"url": "."}],
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token <the server's token>`; in a browser, Jupyter's cookies and _xsrf instead.",
                }
            },
            "schemas": {name: _object(cls) for name, cls in classes().items()},
        },
    }


def _paths() -> dict[str, Any]:
    id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    verb = {"name": "action", "in": "path", "required": True, "schema": _of(Verb)}
    stretch = [
        _query("after", 0, "A number of entry; those after it are sent. -1000: the last thousand."),
        _query("limit", 1000, "At most so many entries; at most 1000, and fewer where they are long.", minimum=1),
    ]
    span = {"name": "span", "in": "query", "required": False, "description": "The whole run, or its latest thousand."}
    span["schema"] = {"enum": ["whole", "latest"], "default": "whole"}
    name = {"name": "name", "in": "query", "required": False, "description": "A number of the loop; may come often."}
    name["schema"] = {"type": "array", "items": {"type": "string"}, "default": []}
    closer = [
        name,
        _query("points", 400, "At most so many of each.", minimum=10, maximum=MOST_POINTS),
        _query("start", -1, "With `stop`: all that the journal has from this step on, of the numbers that are named."),
        _query("stop", -1, "To this step; -1: the whole run."),
    ]
    picks = {"required": True, "content": _content(wire.PickBody)}
    body = {"required": False, "content": _content(wire.ActionBody)}
    return {
        "/status": {"get": _route("Everything a panel shows.", 200, wire.WireStatus)},
        "/openapi.json": {"get": _route("This description.", 200, None)},
        "/jobs/{id}/journal": {
            "get": _route("A stretch of a job's journal.", 200, wire.WireJournal, 404, 422, parameters=[id, *stretch])
        },
        "/jobs/{id}/curves": {
            "get": _route("What a job's numbers did.", 200, wire.WireCurves, 404, 422, parameters=[id, span, *closer]),
            "post": _route(
                "Pick which of them are drawn.",
                *(200, wire.WireCurves, 404, 409, 422),
                parameters=[id, span],
                requestBody=picks,
            ),
        },
        "/jobs/{id}/facts": {
            "get": _route("A run's text, how it was started, its checkpoints.", 200, RunFacts, 404, parameters=[id])
        },
        "/jobs/remove": {
            "post": _route(
                "Remove this user's jobs that have ended, with all their files.",
                *(202, wire.WireSaid, 404, 409, 422),
                requestBody={"required": True, "content": _content(wire.RemoveBody)},
            )
        },
        "/jobs/{id}/try": {
            "post": _route(
                "Call a deployed model of this user's once, with inputs made from its signature.",
                202,
                wire.WireSaid,
                404,
                409,
                parameters=[id],
                requestBody=body,
            )
        },
        "/jobs/{id}/{action}": {
            "post": _route(
                "Act on one of this user's jobs. 202: it is under way, and this is what it said so far.",
                *(202, wire.WireSaid, 404, 409, 422),
                parameters=[id, verb],
                requestBody=body,
            )
        },
        "/claims/{id}/release": {
            "post": _route(
                "Release a claim of this user's, or leave the queue: a command of `gpufit run` is asked to end.",
                202,
                wire.WireSaid,
                404,
                409,
                parameters=[id],
                requestBody=body,
            )
        },
        "/claims/{id}/ask": {
            "post": _route(
                "Ask another user to release their claim.",
                202,
                wire.WireSaid,
                404,
                409,
                parameters=[id],
                requestBody=body,
            )
        },
    }


_WHY_NOT = {
    400: "The request cannot be read.",
    403: "Not signed in, not allowed, or another user's job.",
    404: "There is none of this id.",
    409: "Not now; the message says why.",
    422: "The request makes no sense; the message says why.",
}


def _route(text: str, status: int, answer: type | None, *refusals: int, **more: Any) -> dict[str, Any]:
    answers = {str(status): {"description": text, "content": _content(answer)}}
    refused = {str(code): {"description": _WHY_NOT[code], "content": _content(wire.Refused)} for code in (400, 403)}
    others = {str(code): {"description": _WHY_NOT[code], "content": _content(wire.Refused)} for code in refusals}
    return {"summary": text, **more, "responses": answers | refused | others}


def _content(cls: type | None) -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object"} if cls is None else _reference(cls)}}


def _query(name: str, default: int, text: str, **limits: int) -> dict[str, Any]:
    schema = {"type": "integer", "default": default, "maximum": LARGEST, "minimum": -LARGEST} | limits
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}


def _reference(cls: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name_of(cls)}"}


def _object(cls: type) -> dict[str, Any]:
    hints, comments = get_type_hints(cls), _comments(cls)
    properties = {}
    for item in fields(cls):
        told = {"description": comments[item.name]} if item.name in comments else {}
        properties[item.name] = _of(hints[item.name]) | told
    # What we send is always whole; what we are sent may leave out what has a default.
    sent = cls not in (wire.ActionBody, wire.FollowFrom)
    required = [item.name for item in fields(cls) if sent or (item.default is MISSING)]
    return {"type": "object", "description": inspect.getdoc(cls), "properties": properties, "required": required}


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _of(hint: Any) -> dict[str, Any]:
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return dict(_reference(hint))
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is Any:
        return {}
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return {"enum": list(arguments)}
    if get_origin(hint) in (Union, types.UnionType):
        return {"anyOf": [_of(argument) for argument in arguments]}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    assert get_origin(hint) is tuple, hint
    if arguments[-1] is ...:
        return {"type": "array", "items": _of(arguments[0])}
    items = [_of(argument) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


# TypeScript -----------------------------------------------------------------------------------------------------------


def typescript() -> str:
    """The text of schema.ts."""
    head = "/** What the server extension sends; generated by `python -m jupyter_gpufit.server.contract`. */\n"
    interfaces = [_interface(name, cls) for name, cls in classes().items()]
    kinds = "".join(f"\n  | {name_of(cls)}" for cls in MESSAGES)
    message = f"/** What comes over the WebSocket. */\nexport type Message ={kinds};\n"
    return "\n".join([head, *interfaces, message, _words(), _may(), _states()])


def _words() -> str:
    """The verbs as people read them."""
    lines = [
        f"  {verb}: {{\n    label: '{words.label}',\n    command: '{words.command}'\n  }}"
        for verb, words in WORDS.items()
    ]
    return (
        "/** The verbs, in the words that every front has for them. */\nexport const WORDS = {\n"
        + ",\n".join(lines)
        + "\n};\n\n/** What can be asked of a job. */\nexport type Verb = keyof typeof WORDS;\n"
        + "export const VERBS = Object.keys(WORDS) as Verb[];\n"
    )


def _may() -> str:
    """The table of when."""
    rows = (
        f"  {state}: {{\n" + ",\n".join(f"    {verb}: '{may}'" for verb, may in row.items()) + "\n  }"
        for state, row in MAY.items()
    )
    kinds = " | ".join(f"'{may}'" for may in get_args(May))
    return (
        "/** When it can be: saved: with a checkpoint; later: its button is greyed; no: it has none. */\n"
        f"export const MAY: Record<Job['state'], Record<Verb, {kinds}>> = {{\n" + ",\n".join(rows) + "\n};\n"
    )


def _states() -> str:
    """The sets of states that fronts ask for."""
    return "\n".join(
        f"/** {tells} */\nexport const {name} = new Set<string>([\n"
        + ",\n".join(f"  '{state}'" for state in STATES if state in states)
        + "\n]);\n"
        for name, (states, tells) in _SETS.items()
    )


def _interface(name: str, cls: type) -> str:
    hints, comments = get_type_hints(cls), _comments(cls)
    lines = [f"/** {inspect.getdoc(cls)} */", f"export interface {name} {{"]
    for item in fields(cls):
        comment = " // " + re.sub(r"\bNone\b", "null", comments[item.name]) if item.name in comments else ""
        lines.append(f"{_line(item.name, _type(hints[item.name]))}{comment}")
    return "\n".join([*lines, "}", ""])


def _line(name: str, type: str) -> str:
    line = f"  {name}: {type};"
    if len(line) <= WIDTH or " | " not in type:
        return line
    return f"  {name}:" + "".join(f"\n    | {part}" for part in type.split(" | ")) + ";"


_WORDS = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _type(hint: Any) -> str:
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return name_of(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if hint is Any:
        return "unknown"
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return " | ".join(f"'{argument}'" for argument in arguments)
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_type(argument) for argument in arguments)
    if get_origin(hint) is dict:
        return "{ kind: string; [key: string]: unknown }"  # the only one there is: an event of the journal
    assert get_origin(hint) is tuple, hint
    if arguments[-1] is ...:
        one = _type(arguments[0])
        return f"({one})[]" if get_origin(arguments[0]) in (Literal, Union, types.UnionType) else f"{one}[]"
    return f"[{', '.join(_type(argument) for argument in arguments)}]"


def write(target: Path) -> None:
    target.write_text(typescript())
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    write(TARGET)
