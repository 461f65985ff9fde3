"""The IPython shell in which a cell runs: a kernel's behaviour without a kernel, its output going to the journal."""

from __future__ import annotations

import ast
import base64
import builtins
import getpass
import os
import sys
import types
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from ..jobs.events import Clear, Display, Event, Failure, Note, Result
from ..program import Program
from . import tqdm_notebook
from .comms import Comms
from .tracebacks import quickly

Emit = Callable[[Event], None]
INLINE = "matplotlib_inline.backend_inline"
OUR_FILES = str(Path(__file__).resolve().parents[1]) + os.sep

# A widget's model is mirrored in the kernels that follow the job: they show its view, and everybody else its text.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class JournalPublisher(DisplayPublisher):
    """display(), update_display() and clear_output()."""

    shell: WorkerShell

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        shown, named = dict(data), dict(transient or {})
        if (view := shown.pop(WIDGET_VIEW, None)) and (widget := self.shell.comms.shown(view)):
            named["gpufit_widget"] = widget
        self.shell.emit(Display(_plain(shown), _plain(metadata or {}), named, bool(update)))

    def clear_output(self, wait: bool = False) -> None:
        self.shell.emit(Clear(wait))


class LastExpression(DisplayHook):
    """Shows the value of the cell's last expression, and keeps it for the notebook's Out; there is none here."""

    shell: WorkerShell
    value: object = None

    def quiet(self) -> bool:
        return bool(self.semicolon_at_end_of_expression(self.shell.cell_source))  # type: ignore[no-untyped-call]

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        if WIDGET_VIEW in format_dict:
            self.value = None  # it speaks through this process, and stays in it
            self.shell.display_pub.publish(format_dict, md_dict)
            return
        self.shell.emit(Result(_plain(format_dict), _plain(md_dict or {})))

    def update_user_ns(self, result: object) -> None:
        self.value = result

    def log_output(self, format_dict: dict[str, Any]) -> None:
        pass

    def finish_displayhook(self) -> None:
        self._is_active = False


class WorkerFormatter(DisplayFormatter):
    """Shows figures as pictures, also where no cell of this process has imported pyplot: a checkpoint had them."""

    def format(self, obj: object, include: Any = None, exclude: Any = None) -> Any:
        if "matplotlib.figure" in sys.modules and INLINE not in sys.modules:
            with suppress(ImportError):
                import_module(INLINE)  # which tells the shell how, where figures are to be shown in a notebook
        return super().format(obj, include, exclude)  # type: ignore[no-untyped-call]


class WorkerShell(InteractiveShell):
    """Runs one cell and says what it showed.

    Its class has the name of a kernel's: by it, libraries (rich, fastprogress, huggingface_hub) know a notebook.
    """

    display_pub_class = Type(JournalPublisher)
    displayhook_class = Type(LastExpression)
    emit: Emit
    comms: Comms
    displayhook: LastExpression
    cell_source = ""
    program: Program | None = None  # which makes the cell one that can be left and entered
    on_rewritten: Callable[[], None] = staticmethod(lambda: None)  # it has done so, and the cell begins
    goes_on: Callable[[BaseException], bool] = staticmethod(lambda error: False)  # the job, and begins anew: no failure
    remark: Callable[[BaseException], str] = staticmethod(lambda error: "")  # what to add to an error of the cell's

    @classmethod
    def begin(cls, emit: Emit) -> WorkerShell:
        """The one shell of this process, with an empty `__main__` for the cell."""
        cls.prepare()
        shell: WorkerShell = cls.instance()
        cls.emit = staticmethod(emit)
        cls.comms = Comms(emit, lambda text: emit(Note(text)))
        cls.comms.install()
        os.environ.setdefault("MPLBACKEND", f"module://{INLINE}")  # as a kernel; a terminal, which resumes, does not
        return shell

    @classmethod
    def prepare(cls) -> None:
        """Have a shell that nobody hears yet."""
        if cls.initialized():
            return
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "neutral"
        config.IPKernelApp = Config()  # by which libraries (tqdm, transformers) know that displays are shown
        cls.emit = staticmethod(lambda event: None)
        cls.comms = Comms(cls.emit, lambda text: None)
        cls.comms.install()
        shell: WorkerShell = cls.instance(config=config, user_module=types.ModuleType("__main__"))
        os.environ.setdefault("MPLBACKEND", f"module://{INLINE}")
        tqdm_notebook.draw_html()
        builtins.input = _no_input
        getpass.getpass = _no_input
        shell.builtin_trap.__enter__()  # for good: what is imported before the cell asks for get_ipython(), too

    def run(self, source: str, number: int) -> BaseException | None:
        """Run the cell; what left it as an exception has been shown, and is returned."""
        self.cell_source = source
        self.execution_count = number
        self.comms.hears = True
        try:
            result = self.run_cell(source, store_history=False, silent=False)  # type: ignore[no-untyped-call]
        finally:
            self.comms.hears = False
            self.comms.flush()
        left: BaseException | None = result.error_before_exec or result.error_in_exec
        return left

    def transform_ast(self, node: ast.AST) -> ast.AST:
        node = super().transform_ast(node)  # type: ignore[no-untyped-call]
        if self.program is None or not isinstance(node, ast.Module):
            return node
        transformed = self.transform_cell(self.cell_source)  # type: ignore[no-untyped-call]
        self.program.flags = self.compile.flags  # a `from __future__` of the first of several cells holds for the next
        made = self.program.cell(node, self.compile.get_code_name(self.cell_source, transformed, self.execution_count))
        if made is not node:
            self.on_rewritten()
        return made

    def init_display_formatter(self) -> None:
        self.display_formatter = WorkerFormatter(parent=self)
        self.configurables.append(self.display_formatter)  # type: ignore[arg-type]

    def init_user_ns(self) -> None:
        super().init_user_ns()  # type: ignore[no-untyped-call]
        for name in ("In", "Out"):  # empty ones would pass for the notebook's
            del self.user_ns[name], self.user_ns_hidden[name]

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        etype, value, trace = self._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        if isinstance(value, SystemExit):
            # IPython's next act is to advise against it; set only now, so that no filter of the cell's comes before.
            warnings.filterwarnings("ignore", "To exit: use", UserWarning)
            if value.code in (None, 0):
                return
            kwargs["exception_only"] = False  # where it was called is worth more than how to ask %tb for it
        if self.goes_on(value):
            return
        if remark := self.remark(value):
            value.add_note(remark)
        with quickly(self.InteractiveTB) if isinstance(value, KeyboardInterrupt) else nullcontext():
            super().showtraceback((etype, value, _without_ours(trace)), *args, **kwargs)

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        if self.comms.taking:
            sys.stderr.write("\n".join(stb) + "\n")
            return
        self.emit(Failure(etype.__name__, str(evalue), tuple(stb)))

    def enable_gui(self, gui: str | None = None) -> None:
        """There is no event loop of a window system here; plots are shown in the notebook."""

    def ask_exit(self) -> None:
        pass


WorkerShell.__name__ = WorkerShell.__qualname__ = "ZMQInteractiveShell"
WorkerShell.__module__ = "ipykernel.zmqshell"


def _without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback less the frames of this package: what the user can change stands in the others."""
    if trace is None:
        return None
    rest = _without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(OUR_FILES):
        return rest
    return types.TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def cell_with_magic_line(magic_line: str, body: str) -> str:
    """The cell with its first line as a comment, so that line numbers are those the user sees."""
    # A cell magic must come first, and counts its lines for itself.
    return body if body.lstrip().startswith("%%") else f"# {magic_line}\n{body}"


def _no_input(*args: object, **kwargs: object) -> NoReturn:
    raise StdinNotImplementedError(
        "input() and a debugger cannot ask you anything: this cell runs in a worker, which may outlive the notebook."
        " Ask in an ordinary cell first, and use the answer here; to debug, run the cell without its first line, or use"
        " %debug in the next one once it has failed."
    )


def _plain(bundle: dict[str, Any]) -> dict[str, Any]:
    """Bytes (a PNG) in the form that a notebook stores them."""
    return {
        key: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for key, value in bundle.items()
    }
