"""%%gpufit and %gpufit: parse, one call, show.

A cell that waits for its job is rewritten to `await` it. The kernel's loop then goes on turning, so that widgets of
other cells answer while this one waits; a plain blocking call would starve them (ipykernel routes comms to the main
thread).
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from IPython.core.completer import SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.utils.text import DollarFormatter

from ..actions import commands
from ..actions.completions import completions
from ..errors import CellFailed, GpufitError, first_of
from ..graph.kinds import parents
from ..jobs.follow import Interrupts, Left
from ..jobs.store import all_jobs
from ..program.reading.cell import imported_by
from ..settings import load_settings
from ..surroundings import midway
from ..surroundings import travel as surroundings
from . import reopened
from .notebook import Notebook

# A restart begins with the very signal that the stop button sends. We look for its message so often, and not for so
# long: where the machine is busy and the message takes longer, our looking does, too.
LOOKS_FOR_SHUTDOWN = 15
LOOK_FOR_SHUTDOWN = 0.02  # seconds between two looks


@magics_class
class GpufitMagics(Magics):
    """The magics of one notebook."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.notebook = Notebook(shell, load_settings())
        self.cuda = self.notebook.cuda
        self._interrupts: Interrupts | None = None

    @line_cell_magic
    def gpufit(self, line: str, cell: str | None = None) -> object:
        """Replaced by the help of all verbs; see `load`."""
        return _run_apart(self.awaited(line, cell), self._press)

    def after_cell(self, result: object = None) -> None:
        """A spare now, and not earlier, for importing torch would have slowed the cell down."""
        self.notebook.after_cell()

    def _press(self) -> None:
        if self._interrupts is not None:
            self._interrupts.press()

    async def awaited(self, line: str, cell: str | None = None) -> object:
        """The same, for a caller that can wait without blocking its loop."""
        __tracebackhide__ = True  # in a debugger
        failed, given = await self._attempt(filled_in(line, self.notebook.shell.user_ns), cell)
        if failed is None:
            return given
        # Raised outside the handler and without its context: IPython shows a whole group rather than our sentence.
        failed.__context__ = None
        if isinstance(failed, CellFailed) and failed.came is not None:
            failed.came._render_traceback_ = failed._render_traceback_  # type: ignore[attr-defined]
            raise failed.came  # with its own frames as they were: for %debug
        if not hasattr(failed, "_render_traceback_"):
            # What IPython shows in place of a traceback: the user's mistake is not in our frames.
            failed._render_traceback_ = partial(_sentence, failed)  # type: ignore[attr-defined]
        # Nor with its frames: IPython keeps the last traceback, and with it the shipment of a failed job.
        raise failed.with_traceback(None)

    async def _attempt(self, line: str, cell: str | None) -> tuple[GpufitError | None, object]:
        failed: GpufitError | None = None
        given: object = None
        try:
            with _interrupts() as self._interrupts:
                options = commands.parse_line(line)
                given = await self.notebook.do(options, line, cell, self._interrupts, self._kernel_is_leaving)
        except* commands.HelpAsked as asked:
            print(asked.exceptions[0])  # noqa: T201 - help is what the cell was asked to print
        except* Left:
            pass  # the kernel restarts; the job goes on, and `%gpufit attach` follows it again
        except* GpufitError as group:
            failed = first_of(group)
        return failed, given

    async def _kernel_is_leaving(self) -> bool:
        """Whether an interrupt is the first step of a shutdown: the message comes a moment after the signal."""
        kernel = getattr(self.shell, "kernel", None)
        for _ in range(0 if kernel is None else LOOKS_FOR_SHUTDOWN):
            # A private attribute, set by the control thread: no public one tells (ipykernel 7.4).
            if getattr(kernel, "_shutdown_message", None) is not None:
                return True
            await asyncio.sleep(LOOK_FOR_SHUTDOWN)
        return False


def load(ip: InteractiveShell) -> None:
    """Register magics, completion and the rewriting to `await`; no widget, no worker, no device is touched."""
    magics = GpufitMagics(ip)
    GpufitMagics.gpufit.__doc__ = commands.help_text()
    ip.register_magics(magics)
    ip.input_transformers_post.append(await_gpufit)
    if ip.Completer is not None:
        ip.Completer.custom_matchers.append(gpufit_matcher)
    surroundings.watch.begin(_imported_before(ip))
    surroundings.watch.on_imported = magics.notebook.after_import
    midway.begin_alone(lambda: ip.user_ns)
    magics.cuda.begin()
    parents.watch()
    reopened.begin()
    ip.events.register("post_run_cell", magics.after_cell)
    magics.after_cell()


def unload(ip: InteractiveShell) -> None:
    """Take back what `load` registered; running jobs go on."""
    surroundings.watch.end()
    parents.forget()
    reopened.end()
    magics = ip.magics_manager.registry.pop("GpufitMagics", None)
    if magics is not None:
        ip.events.unregister("post_run_cell", magics.after_cell)
        magics.notebook.spare.dismiss()
        magics.cuda.end()
    for kind in ("line", "cell"):
        ip.magics_manager.magics[kind].pop("gpufit", None)
    if await_gpufit in ip.input_transformers_post:
        ip.input_transformers_post.remove(await_gpufit)
    if ip.Completer is not None and gpufit_matcher in ip.Completer.custom_matchers:
        ip.Completer.custom_matchers.remove(gpufit_matcher)


def _imported_before(ip: InteractiveShell) -> set[str]:
    """The packages that earlier cells have imported."""
    found: set[str] = set()
    for text in getattr(ip.history_manager, "input_hist_parsed", []):
        try:
            found |= imported_by(text)
        except SyntaxError:
            continue
    return found


def filled_in(line: str, names: dict[str, Any]) -> str:
    """The line with the values of the notebook's names in it, as of every magic: `--name {run}`, `--gpus $n`."""
    try:
        return DollarFormatter().vformat(line, args=[], kwargs=names)
    except Exception:  # it means no name of the notebook's
        return line


_CALL = re.compile(r"(\w+ *= *)?get_ipython\(\)\.run_(?:cell|line)_magic\('gpufit', ")


def await_gpufit(lines: list[str]) -> list[str]:
    """Rewrite the transformed magic to its awaitable twin, where a line of the notebook's cell begins with it.

    What a running cell transforms (the body of %%time, of %%capture) is not touched: there is nobody to await it.
    """
    from IPython.core.getipython import get_ipython

    ip = get_ipython()
    if ip is None or not ip.autoawait or ip.loop_runner_map["asyncio"][0] is not ip.loop_runner or _is_inside_a_cell():
        return lines
    twin = "await get_ipython().magics_manager.registry['GpufitMagics'].awaited("
    calls = ((_CALL.match(line), line) for line in lines)
    return [f"{call[1] or ''}{twin}{line[call.end() :]}" if call else line for call, line in calls]


def _is_inside_a_cell() -> bool:
    """Whether a cell of this thread's is being run; a flag set by events would be wrong for cells of subshells."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not InteractiveShell.run_code.__code__:
        frame = frame.f_back
    return frame.f_back is not None


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    """Count the presses of Ctrl-C (the stop button) while a job is followed, rather than be torn apart by them."""
    interrupts = Interrupts(asyncio.get_running_loop())
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # signals reach the main thread only; `_run_apart` passes them on
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.press())
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _run_apart(coroutine: Coroutine[Any, Any, object], press: Callable[[], None]) -> object:
    """Run to the end from synchronous code, in a thread if this one has a running loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(coroutine))
        except BaseException as error:
            done.set_exception(error)

    # With our context: ipykernel finds there which cell the output belongs to.
    threading.Thread(target=contextvars.copy_context().run, args=(run,)).start()
    while True:
        try:
            return done.result()
        except KeyboardInterrupt:
            press()


def _sentence(error: GpufitError) -> list[str]:
    return [f"{type(error).__name__}: {error}"]


@context_matcher()  # type: ignore[untyped-decorator]
def gpufit_matcher(context: Any) -> SimpleMatcherResult:
    """Complete verbs, options, devices and jobs on a line that begins with %gpufit or %%gpufit."""
    line = context.full_text.split("\n")[context.cursor_line]
    typed = re.match(r"(%%?)gpufit\s+(.*)", line[: context.cursor_position])
    if typed is None:
        return {"completions": []}
    *words, fragment = re.split(r"\s+", typed[2])
    found = completions(words, fragment, place="cell" if typed[1] == "%%" else "line", devices=_devices(), jobs=_jobs())
    return {
        "completions": [SimpleCompletion(text=word, type="param") for word in found],
        "matched_fragment": fragment,
        "suppress": True,
    }


def _devices() -> list[str]:
    from ..devices.here import read_devices

    try:
        return [device.label for device in read_devices(load_settings())]
    except GpufitError:
        return []


def _jobs() -> list[str]:
    try:
        return [word for job, _ in all_jobs(load_settings()) for word in (job.name, job.id)]
    except GpufitError:
        return []
