"""Which version of the package this is, and what installs into its environment."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache


@cache
def version() -> str:
    # When first asked: looking it up costs more time than everything else a command imports from us.
    from importlib.metadata import version as found

    return found("jupyter_gpufit")


def pip_install() -> str:
    """The command to which packages are added; an administrator's, where this user may not write."""
    ours = os.access(sysconfig.get_path("purelib"), os.W_OK)
    return f"{'' if ours else 'sudo '}{sys.executable} -m pip install"
