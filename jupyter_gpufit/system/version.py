"""Which version of the package this is."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    # When first asked: looking it up costs more time than everything else a command imports from us.
    from importlib.metadata import version as found

    return found("jupyter_gpufit")
