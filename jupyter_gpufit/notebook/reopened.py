"""The kernel's widgets, told a page once more that could not ask for them, and so would draw none.

A page that is loaded asks the kernel for its widgets, and gives up after four seconds (ipywidgets 8): that is little
where the page or the machine is busy. Then it asks which lines there are, and this ipykernel answers between cells
only: while a cell waits for its training, all widgets of the notebook would be *Loading widget...*. Messages of
widgets it does hear then, and ours is one.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from comm import get_comm_manager

TARGET = "jupyter-gpufit-reopen"  # as labextension/src/cells/revive.ts has it


def begin() -> None:
    get_comm_manager().register_target(TARGET, _reopen)


def end() -> None:
    with suppress(KeyError):  # it was never begun
        get_comm_manager().unregister_target(TARGET, _reopen)


def _reopen(line: Any, message: object) -> None:
    """Tell of each as when it was made: those inside of others were made first."""
    widgets: Any = sys.modules.get("ipywidgets.widgets.widget")
    for widget in list(widgets._instances.values()) if widgets else ():
        state, paths, buffers = widgets._remove_buffers(widget.get_state())
        widget.comm.publish_msg(
            "comm_open",
            data={"state": state, "buffer_paths": paths},
            metadata={"version": widgets.__protocol_version__},
            buffers=buffers,
            target_name=widget.comm.target_name,
            target_module=widget.comm.target_module,
        )
    line.close()
