"""Run a notebook cell on the GPU where it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from jupyter_server.serverapp import ServerApp

    __version__: str

else:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .system.version import version

        return version()


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "_labextension", "dest": "jupyter-gpufit"}]


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    from . import server

    server.load(app)


def load_ipython_extension(ip: InteractiveShell) -> None:
    """Called by `%load_ext jupyter_gpufit`."""
    from .notebook import magics

    magics.load(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """Called by `%unload_ext jupyter_gpufit`."""
    from .notebook import magics

    magics.unload(ip)
