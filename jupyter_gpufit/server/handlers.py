"""The REST routes, every one authenticated and authorised as Jupyter's own.

What may be read or done is decided by the server's authorizer for the resource `gpufit`. A page of another site has the
user's cookies, and not the value of the XSRF cookie.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from ..actions.buttons import find_mine
from ..actions.facts import RunFacts, read_facts
from ..errors import GpufitError, NoSuchHold, NoSuchJob, NotYourJob
from ..jobs.curves import MOST as MOST_POINTS
from ..jobs.picked import MOST, pick
from ..jobs.verbs import VERBS
from ..system.background import aside
from ..system.version import version
from . import contract, wire
from .curves import read_stretch as read_stretch_of_curves
from .encode import to_json
from .journals import MOST_ENTRIES, read_stretch
from .service import Service

LARGEST_BODY = 4096  # bytes
MANY_JOBS = 1 << 16  # bytes, of a body that names jobs


class Unreadable(Exception):
    """What was asked makes no sense; carries the sentence."""


class Missing(Exception):
    """There is no such thing to ask for; carries the sentence."""


class Handler(APIHandler):
    """What all routes have in common."""

    auth_resource = "gpufit"

    def initialize(self, service: Service) -> None:
        self.service = service

    async def answer(self, find: Callable[[], Awaitable[Any]], status: int = 200) -> None:
        """Answer with what is found, or with the sentence that says why not."""
        try:
            found = await find()
        except Unreadable as error:
            status, found = 422, wire.Refused(message=str(error))
        except NotYourJob as error:
            status, found = 403, wire.Refused(message=str(error))
        except (Missing, NoSuchJob, NoSuchHold) as error:
            status, found = 404, wire.Refused(message=str(error))
        except GpufitError as error:
            status, found = 409, wire.Refused(message=str(error))
        self.set_status(status)
        self.finish(to_json(found))

    def number(self, name: str, default: int) -> int:
        """A whole number of the query."""
        text = self.get_query_argument(name, str(default))
        try:
            number = int(text) if len(text) < 20 else None  # a long one takes long to read
        except ValueError:
            number = None
        if number is None or abs(number) > contract.LARGEST:
            raise Unreadable(f"{name} is {text[:40]!r}; it must be a whole number.")
        return number

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            allowed = (name for name in ("GET", "POST") if name.lower() in vars(type(self)))
            self.set_header("Allow", ", ".join(("OPTIONS", *allowed)))
        super().write_error(status_code, **kwargs)


class StatusHandler(Handler):
    """GET status. A page that looks again and again is nobody at work: it must not keep a culler away."""

    _track_activity = False

    @authenticated
    @authorized
    async def get(self) -> None:
        async def find() -> wire.WireStatus:
            readings, under_way = self.service.readings, self.service.actions.under_way
            latest = await readings.latest()
            return readings.told(latest, under_way)

        await self.answer(find)


class ActionHandler(Handler):
    """POST jobs/{id}/{action}."""

    @authenticated
    @authorized
    async def post(self, id: str, action: str) -> None:
        async def find() -> wire.WireSaid:
            if action not in VERBS:
                raise Missing(f"There is no action {action[:40]!r}. It is one of {', '.join(VERBS)}.")
            body = _body(self.request.body)
            return wire.WireSaid(said=await self.service.actions.on_job(id, action, body.to))

        await self.answer(find, 202)


class TryHandler(Handler):
    """POST jobs/{id}/try."""

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        async def find() -> wire.WireSaid:
            return wire.WireSaid(said=await self.service.actions.try_it(id))

        await self.answer(find, 202)


class AskHandler(Handler):
    """POST claims/{id}/ask."""

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        async def find() -> wire.WireSaid:
            return wire.WireSaid(said=await self.service.actions.ask(id))

        await self.answer(find, 202)


class GiveUpHandler(Handler):
    """POST claims/{id}/release."""

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        async def find() -> wire.WireSaid:
            return wire.WireSaid(said=await self.service.actions.give_up(id))

        await self.answer(find, 202)


class RemoveHandler(Handler):
    """POST jobs/remove."""

    @authenticated
    @authorized
    async def post(self) -> None:
        async def find() -> wire.WireSaid:
            return wire.WireSaid(said=await self.service.actions.remove(_removed(self.request.body)))

        await self.answer(find, 202)


class JournalHandler(Handler):
    """GET jobs/{id}/journal."""

    @authenticated
    @authorized
    async def get(self, id: str) -> None:
        async def find() -> wire.WireJournal:
            after, limit = self.number("after", 0), self.number("limit", MOST_ENTRIES)
            if limit < 1:
                raise Unreadable(f"limit is {limit}; it must be at least 1.")

            def read() -> wire.WireJournal:
                return read_stretch(find_mine(self.service.settings(), id)[1], after, limit)

            return await aside(read, self.service.threads)

        await self.answer(find)


class CurvesHandler(Handler):
    """GET and POST jobs/{id}/curves."""

    @authenticated
    @authorized
    async def get(self, id: str) -> None:
        await self.answer(lambda: self._read(id, None))

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        async def find() -> wire.WireCurves:
            return await self._read(id, _picks(self.request.body))

        await self.answer(find)

    async def _read(self, id: str, picks: wire.PickBody | None) -> wire.WireCurves:
        span = self.get_query_argument("span", "whole")
        if span not in ("whole", "latest"):
            raise Unreadable(f"span is {span[:40]!r}; it must be whole or latest.")
        names = self.get_query_arguments("name", strip=False)[:MOST]
        most = self.number("points", MOST_POINTS)
        if not 10 <= most <= contract.MOST_POINTS:
            raise Unreadable(f"points is {most}; it must be 10 to {contract.MOST_POINTS}.")
        start, stop = self.number("start", -1), self.number("stop", -1)

        def read() -> wire.WireCurves:
            paths = find_mine(self.service.settings(), id)[1]
            if picks is not None:
                pick(paths, picks.names)
            if stop >= 0:
                return read_stretch_of_curves(paths, names, start, stop, most)
            return self.service.curves.read(paths, whole=span == "whole", names=names, most=most)

        return await aside(read, self.service.threads)


class FactsHandler(Handler):
    """GET jobs/{id}/facts."""

    @authenticated
    @authorized
    async def get(self, id: str) -> None:
        async def find() -> RunFacts:
            return await aside(lambda: read_facts(*find_mine(self.service.settings(), id)), self.service.threads)

        await self.answer(find)


class DescriptionHandler(Handler):
    """GET openapi.json."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.finish(json.dumps(contract.description(version())))


def _body(sent: bytes) -> wire.ActionBody:
    if not sent.strip():
        return wire.ActionBody()
    record = _json(sent)
    to = record.get("to", "") if isinstance(record, dict) else None
    if not isinstance(to, str):
        raise Unreadable('The body must be an object such as {} or {"to": "cpu:1"}.')
    return wire.ActionBody(to=to)


def _picks(sent: bytes) -> wire.PickBody:
    record = _json(sent)
    names = record.get("names") if isinstance(record, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable('The body must be an object such as {"names": ["loss", "lr"]}.')
    return wire.PickBody(names=tuple(names))


def _removed(sent: bytes) -> tuple[str, ...]:
    record = _json(sent, MANY_JOBS)
    ids = record.get("jobs") if isinstance(record, dict) else None
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise Unreadable('The body must be an object such as {"jobs": ["k3x9qa"]}.')
    return tuple(ids)


def _json(sent: bytes, most: int = LARGEST_BODY) -> Any:
    if len(sent) > most:
        raise Unreadable("The body is too long.")
    try:
        return json.loads(sent)
    except (ValueError, RecursionError) as error:
        raise Unreadable("The body is not JSON.") from error


def routes() -> list[tuple[str, type[Handler]]]:
    """Where each is, below the API's own place."""
    return [
        ("status", StatusHandler),
        (r"openapi\.json", DescriptionHandler),
        (r"jobs/remove", RemoveHandler),
        (r"jobs/([^/]+)/journal", JournalHandler),
        (r"jobs/([^/]+)/curves", CurvesHandler),
        (r"jobs/([^/]+)/facts", FactsHandler),
        (r"jobs/([^/]+)/try", TryHandler),
        (r"jobs/([^/]+)/([^/]+)", ActionHandler),
        (r"claims/([^/]+)/ask", AskHandler),
        (r"claims/([^/]+)/release", GiveUpHandler),
    ]
