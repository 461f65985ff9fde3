"""Whether jupyterhub-idle-culler (2.0 or later) may stop a server: not while its user's jobs wait or compute.

In idle_culler_config.py, beside where the culler runs:

    from jupyter_gpufit.hub.culler import cull_arbiter
    c.IdleCuller.cull_arbiter_hook = cull_arbiter

It looks at the lab, where the kernel says whose each claim is. So it knows nothing of labs on other machines; there the
activity that each server reports must do (see server/activity.py).
"""

from __future__ import annotations

import logging
import pwd
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import GpufitError
from ..lab import open_lab
from ..lab.ledger import LedgerReader
from ..lab.standing import NOTHING, read_standings
from ..settings import load_settings

log = logging.getLogger(__name__)


def cull_arbiter(
    *, inactive: timedelta | None, inactive_limit: float, server: Mapping[str, Any], **_later: object
) -> bool:
    """True where the server has been idle for long enough, and its user has nothing at work in the lab."""
    if inactive is None or inactive.total_seconds() < inactive_limit:
        return False
    name = user_of(server)
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return True  # no user of this machine, so nothing in its lab is theirs
    try:
        at_work = works(uid)
    except (GpufitError, OSError) as error:
        # A training that ends for this would be lost work; a server that stays costs a little memory.
        log.warning("The server of %s is not stopped, because the lab cannot be read: %s", name, error)
        return False
    return not at_work


def works(uid: int) -> bool:
    """Whether this user waits for a device, or holds one on which something is computed."""
    lab = open_lab(load_settings()).path
    found = LedgerReader(lab).read()
    claims = [claim for claim in found.claims if claim.uid == uid]
    words = read_standings(lab, claims)
    idle = [claim for claim in claims if words.get(claim.id, NOTHING).idle is not None]
    return len(idle) < len(claims) or any(ticket.uid == uid for ticket in found.tickets)


def user_of(server: Mapping[str, Any]) -> str:
    """Whose a server is, by the hub's description of it; a hub before 5 says so in its address only."""
    if full := server.get("full_name"):
        return str(full).rpartition("/")[0]
    return unquote(urlsplit(str(server["url"])).path.partition("/user/")[2].partition("/")[0])
