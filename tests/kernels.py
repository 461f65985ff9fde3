"""A real IPython kernel with the magics, driven as a notebook drives it."""

from __future__ import annotations

import os
import queue
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.warm import begin_warm

TIMEOUT = 300.0  # seconds: for what must come; never a measure of speed


@dataclass
class Ran:
    """What a cell showed."""

    stdout: str = ""
    stderr: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    written: list[tuple[str, str]] = field(default_factory=list)  # each passage, with its stream, as a front joins them
    result: dict[str, Any] | None = None
    ename: str = ""
    evalue: str = ""
    traceback: str = ""

    @property
    def ok(self) -> bool:
        return not self.ename

    @property
    def released(self) -> bool:
        """Whether its job was released: the cells behind it are not run, as after an error."""
        return self.ename == "Released"

    @property
    def shown(self) -> str:
        """The text of everything displayed."""
        return "\n".join(str(display.get("text/plain", "")) for display in self.displays)


@dataclass
class Kernel:
    """One kernel and its client."""

    manager: KernelManager
    client: BlockingKernelClient
    _shown: dict[str, Ran] = field(default_factory=dict)  # by the cell: what `until` has seen come

    def run(self, code: str, timeout: float = TIMEOUT) -> Ran:
        """Run a cell to its end."""
        return self.finish(self.send(code), timeout)

    def check(self, code: str) -> Ran:
        """Run a cell that must not fail."""
        ran = self.run(code)
        assert ran.ok, f"{ran.ename}: {ran.evalue}\n{ran.traceback}\n{ran.stderr}"
        return ran

    def send(self, code: str) -> str:
        """Start a cell, without waiting for it."""
        return str(self.client.execute(code))

    def finish(self, sent: str, timeout: float = TIMEOUT) -> Ran:
        """Everything that a started cell shows from now on, until it is idle."""
        ran = Ran()
        for _ in self.watch(sent, ran, timeout):
            pass
        return ran

    def watch(self, sent: str, ran: Ran, timeout: float = TIMEOUT) -> Iterator[Ran]:
        """The same, message by message."""
        until = time.monotonic() + timeout
        while True:
            message = self._message(until)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if _take(ran, message):
                return
            yield ran

    def until(self, sent: str, wanted: str, timeout: float = TIMEOUT) -> Ran:
        """What a started cell has shown by the time `wanted` stands in its output.

        All that earlier calls have seen counts: a line that came before what they waited for does not come again.
        """
        ran = self._shown.setdefault(sent, Ran())
        messages = self.watch(sent, ran, timeout)
        while wanted not in ran.stdout + ran.stderr + ran.shown:
            if next(messages, None) is None:
                raise AssertionError(f"the cell ended without {wanted!r}: {ran}")
        return deepcopy(ran)

    def replied(self, sent: str, timeout: float) -> bool:
        """Whether a started cell has come to its end, waiting for that so many seconds at the most."""
        until = time.monotonic() + timeout
        with suppress(queue.Empty):
            while True:
                reply = self.client.get_shell_msg(timeout=max(0.01, until - time.monotonic()))
                if reply["parent_header"].get("msg_id") == sent:
                    return True
        return False

    def new_subshell(self) -> str:
        """A thread of the kernel in which it answers beside a cell, by the protocol's 5.5."""
        self.client.control_channel.send(self.client.session.msg("create_subshell_request"))
        made: str = self.client.get_control_msg(timeout=TIMEOUT)["content"]["subshell_id"]
        return made

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        """Restart it as Jupyter does: what it is asked to do first, it must do by itself."""
        provisioner: Any = self.manager.provisioner
        ending = provisioner.process
        self.manager.shutdown_wait_time = TIMEOUT  # and not 5 s, after half of which it would be terminated
        self.manager.restart_kernel(now=False)
        assert ending.returncode == 0
        self.client.wait_for_ready(timeout=TIMEOUT)
        self.check("%load_ext jupyter_gpufit")

    def _message(self, until: float) -> dict[str, Any]:
        try:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=max(0.01, until - time.monotonic()))
        except queue.Empty:
            raise AssertionError("the kernel said nothing for too long") from None
        return message


def _take(ran: Ran, message: dict[str, Any]) -> bool:
    """Add a message to what was shown; True when the cell is idle."""
    content = message["content"]
    if message["msg_type"] == "stream":
        name, text = content["name"], content["text"]
        before = ran.written.pop()[1] if ran.written and ran.written[-1][0] == name else ""
        ran.written.append((name, before + text))
    match message["msg_type"]:
        case "stream" if content["name"] == "stdout":
            ran.stdout += content["text"]
        case "stream":
            ran.stderr += content["text"]
        case "display_data" | "update_display_data":
            is_update = message["msg_type"] == "update_display_data"
            ran.displays.append(content["data"] | {"transient": content.get("transient", {}), "update": is_update})
        case "execute_result":
            ran.result = content["data"]
        case "error":
            ran.ename, ran.evalue = content["ename"], content["evalue"]
            ran.traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"]))
        case "clear_output":
            ran.displays.append({"clear": content["wait"]})
        case "status":
            return bool(content["execution_state"] == "idle")
    return False


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user whose home, runtime directory and lab are all under `home`."""
    runtime = home / "run"
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    given = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFIT_", "JPY_", "JUPYTER"))}
    return given | {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / "jupyter"),
        "GPUFIT_DEVICES": "cpu:2x2GiB",
        "GPUFIT_SPARE_WORKER": "never",  # each would take what the tests need of the machine
        "GPUFIT_SHRINK_AFTER": "0",  # on a busy machine any cell would come so far
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **more,
    }


@contextmanager
def running_kernel(
    env: Mapping[str, str], cwd: Path, *, load: bool = True, python: str = "", cold: bool = False
) -> Iterator[Kernel]:
    """A kernel with the extension loaded, unless the test loads it itself; `python`: of another environment.

    Unless it is to be a cold one, it is forked by a process that has imported torch, and imports it in no time.
    """
    manager = KernelManager(kernel_name="python3")
    if python:
        assert manager.kernel_spec is not None
        manager.kernel_spec.argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    elif not cold:
        begin_warm(manager)
    manager.start_kernel(env=dict(env), cwd=str(cwd))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        kernel = Kernel(manager, client)
        if load:
            kernel.check("%load_ext jupyter_gpufit")
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
