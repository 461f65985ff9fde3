"""The server extension, at <base url>/jupyter-gpufit/api/: what `status.py` reads, the verbs, and the journals of jobs.

It is the way that works while the kernel is busy, after a reload and without any kernel.

    load            adds the routes to a Jupyter server
    handlers        REST                  events     the WebSocket
    wire            what goes over it (pure); contract makes OpenAPI and TypeScript of it
    readings        one reading for all who look, and none when nobody does
    actions         the verbs under way   journals   stretches of a job's journal
    renames         a notebook's jobs go with it, and moved finds it where no server heard
    activity        tells Jupyter, and so the hub's culler, that jobs are at work
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def load(app: ServerApp) -> None:
    """Add our routes to a Jupyter server; nothing but this user's jobs, once a minute, is read until somebody asks."""
    from jupyter_server.utils import ApiPath, to_os_path, url_path_join

    from .activity import ActivityReport
    from .events import Events
    from .handlers import routes
    from .renames import EVENTS, Renames
    from .service import Service

    service = Service()
    base = url_path_join(app.web_app.settings["base_url"], "jupyter-gpufit", "api")
    found = [(url_path_join(base, path), handler, {"service": service}) for path, handler in routes()]
    app.web_app.add_handlers(".*$", [*found, (url_path_join(base, "events"), Events, {"service": service})])
    if app.event_logger is not None:
        renames = Renames(service.settings, lambda path: to_os_path(ApiPath(path), app.root_dir), service.read_anew)
        app.event_logger.add_listener(schema_id=EVENTS, listener=renames.hear)
    ActivityReport(service.settings, app.web_app.settings).begin()
