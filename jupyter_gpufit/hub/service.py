"""`gpufit-hub`: the lab's page and figures, as a service that JupyterHub starts (docs/administrators.md).

Who looks is known by the hub's own sign-in. Everybody whom the hub lets in sees the page; its administrators also act.
Notebooks do not need it: while it is down, all but the page goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler, authenticated

from ..lab.policy_file import drained, drained_path
from ..settings import load_settings
from ..system.background import aside
from . import deeds
from .audit import AuditLog
from .figures import LabFigures
from .page import AUDIT_SHOWN, SHOWN, STRETCH, WEEK, HubPage, render
from .reading import HubReader
from .store import HubStore

log = logging.getLogger(__name__)

STATE = "/var/lib/gpufit"  # GPUFIT_HUB_STATE: another one
CONTENT = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
NEEDED = ("JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_API_URL")


class ServiceHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # jupyterhub has no types
    """What all routes have in common."""

    def initialize(self, reader: HubReader, audit: AuditLog) -> None:
        self.reader, self.audit = reader, audit

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", CONTENT)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")

    @property
    def user(self) -> dict[str, Any]:
        """As the hub knows whoever asks."""
        found: dict[str, Any] = self.current_user
        return found

    @property
    def is_admin(self) -> bool:
        return self.user.get("admin") is True


class PageHandler(ServiceHandler):
    """GET the page."""

    @authenticated
    async def get(self) -> None:
        reading = await self.reader.fresh()
        now = reading.status.time

        def draw() -> str:
            return render(
                HubPage(
                    status=reading.status,
                    uses=self.reader.store.uses(now - WEEK),
                    busy=self.reader.store.busy(now - SHOWN, now, STRETCH),
                    user=str(self.user["name"]),
                    admin=self.is_admin,
                    drained=drained(drained_path()),
                    audit=self.audit.last(AUDIT_SHOWN) if self.is_admin else (),
                    xsrf=self.xsrf_form_html() if self.is_admin else "",
                )
            )

        self.finish(draw())


class ActHandler(ServiceHandler):
    """POST what an administrator does."""

    @authenticated
    async def post(self) -> None:
        who, deed, id = str(self.user["name"]), self.get_body_argument("deed"), self.get_body_argument("id")
        if deed not in deeds.DEEDS or len(id) > 200:
            raise HTTPError(422, reason="There is no such action")
        on = deeds.target_name((await self.reader.fresh()).status.claims, id)
        if not self.is_admin:
            self.audit.add(who, deed, on, id, "Refused: not an administrator of the hub.")
            raise HTTPError(403, reason="Only the administrators of the hub may do this")
        self.audit.add(who, deed, on, id, "begun")  # first: what cannot be written down is not done
        said = await aside(lambda: deeds.done(deed, load_settings(), id))
        self.audit.add(who, deed, on, id, said)
        self.redirect("./#audit", status=303)


class MetricsHandler(ServiceHandler):
    """GET the figures for Prometheus, with a token of the hub's."""

    async def get(self) -> None:
        if self.current_user is None:
            raise HTTPError(403)  # a program has no use for the page to sign in
        await self.reader.fresh()
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(self.reader.figures.text())


def application(reader: HubReader, audit: AuditLog, prefix: str) -> Application:
    shared = {"reader": reader, "audit": audit}
    return Application(
        [
            (prefix, PageHandler, shared),
            (prefix + "act", ActHandler, shared),
            (prefix + "metrics", MetricsHandler, shared),
            (prefix + "oauth_callback", HubOAuthCallbackHandler),
        ],
        cookie_secret=os.urandom(32),
        xsrf_cookies=True,
        xsrf_cookie_kwargs={"httponly": True, "samesite": "Strict"},
    )


async def serve(state: Path, prefix: str, url: str) -> None:
    """Until SIGTERM, which the hub sends, and waits."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    store = HubStore(state / "history.sqlite")
    reader = HubReader(store, LabFigures())
    place = urlsplit(url)
    server = HTTPServer(application(reader, AuditLog(state / "audit.jsonl"), prefix))
    server.listen(place.port or 80, place.hostname or "127.0.0.1")
    log.info("The lab's page is at %s", prefix)
    reading = asyncio.create_task(reader.run())
    try:
        await stopped.wait()
    finally:
        reading.cancel()
        server.stop()
        await server.close_all_connections()
        store.close()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        sys.exit(
            f"gpufit-hub: {missing[0]} is not set. JupyterHub starts this service, by c.JupyterHub.services in"
            " jupyterhub_config.py: see examples/hub/jupyterhub_config.py."
        )
    state = Path(os.environ.get("GPUFIT_HUB_STATE") or STATE)
    asyncio.run(serve(state, os.environ["JUPYTERHUB_SERVICE_PREFIX"], os.environ["JUPYTERHUB_SERVICE_URL"]))


if __name__ == "__main__":
    main()
