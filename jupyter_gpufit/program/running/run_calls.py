"""exec(), runpy.run_path() and %run as rewritten code calls them: what they run can be left midway, too.

Each does around the text what Python or IPython does: sys.argv, `__main__`, and the notebook's names at its end. What
has no place to be left at, or is run in a function's own variables, is run as it always is.
"""

from __future__ import annotations

import builtins
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from ..rewriting.source import FUTURE_FLAGS
from .activation import Activation

_KEPT = set("ineG")  # options of %run with which it runs a file once, and does nothing else
_OF_A_MODULE = {"__cached__": None, "__doc__": None, "__loader__": None, "__package__": "", "__spec__": None}


@dataclass(frozen=True)
class RunCall:
    """A call as it is saved: in place of the callee."""

    how: str  # exec, runpy, %run
    name: str  # of the text
    home: Any  # the dictionary of its variables, or the module whose they are
    line: str = ""  # behind %run; for runpy, the file

    def go_on(self, frame: Activation) -> Any:
        """Enter the text where it was left: at the first of the records."""
        records = frame.rest
        assert records, "a text was not left midway"
        return _HOW[self.how](frame, self, sys._getframe(2), records)


def variant(callee: Any, frame: Activation) -> Callable[..., Any] | None:
    """What to call instead; None for all else."""
    if callee is builtins.exec:
        return partial(_exec, frame)
    if type(callee) is FunctionType and callee is runpy.run_path:
        return partial(_run_path, frame)
    if type(callee) is MethodType and getattr(callee, "__name__", "") == "run_line_magic":
        return partial(_line_magic, frame, callee)
    return None


# exec() --------------------------------------------------------------------------------------------------------------


def _exec(frame: Activation, given: Any, variables: Any = None, own: Any = None, /, **more: Any) -> None:
    caller = sys._getframe(1)
    if variables is None:
        variables = caller.f_globals
        if own is None:
            own = caller.f_locals if type(caller.f_locals) is dict else dict(caller.f_locals)
    own = variables if own is None else own
    name = None
    if own is variables and type(variables) is dict and not more:
        name = frame.program.ran.found(given, caller.f_code.co_flags)
    if name is not None:
        return _execute(frame, RunCall("exec", name, variables), caller)
    frame.callee = None
    if type(given) in (str, bytes):  # with what the caller's own `from __future__` lines say, not with ours
        flags = caller.f_code.co_flags & FUTURE_FLAGS
        given = compile(given, "<string>", "exec", flags=flags, dont_inherit=True)
    return exec(given, variables, own, **more)


def _execute(frame: Activation, call: RunCall, caller: FrameType, records: Any = None) -> None:
    module = call.home if isinstance(call.home, ModuleType) else None
    variables = call.home if module is None else vars(module)
    frame.callee = call
    try:
        frame.program.ran.run(call.name, variables, caller, frame.program, module, records)
    finally:
        frame.callee = None


# runpy ---------------------------------------------------------------------------------------------------------------


def _run_path(frame: Activation, path_name: Any, init_globals: Any = None, run_name: str | None = None) -> Any:
    name = _of_file(frame, path_name)
    if name is None:
        frame.callee = None
        return runpy.run_path(path_name, init_globals, run_name)
    module = ModuleType(run_name or "<run_path>")
    vars(module).update(init_globals or {})
    package = module.__name__.rpartition(".")[0]
    vars(module).update(_OF_A_MODULE, __name__=module.__name__, __file__=str(path_name), __package__=package)
    return _in_module(frame, RunCall("runpy", name, module, str(path_name)), sys._getframe(1))


def _in_module(frame: Activation, call: RunCall, caller: FrameType, records: Any = None) -> Any:
    argv0 = sys.argv[0]
    with _named(call.home):
        sys.argv[0] = call.line
        try:
            _execute(frame, call, caller, records)
            return {name: one for name, one in vars(call.home).items() if not name.startswith("_gf")}
        finally:
            sys.argv[0] = argv0


@contextmanager
def _named(module: ModuleType) -> Iterator[None]:
    """Let a module be found under its name."""
    name, missing = module.__name__, object()
    was: Any = sys.modules.get(name, missing)
    sys.modules[name] = module
    try:
        yield
    finally:
        if was is missing:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = was


def _of_file(frame: Activation, path: Any) -> str | None:
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), str(path), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, TypeError):
        return None
    found: str | None = frame.program.ran.found(code, 0)
    return found


# %run ----------------------------------------------------------------------------------------------------------------


def _line_magic(frame: Activation, method: Any, magic: str, line: str, *args: Any, **named: Any) -> Any:
    caller, shell = sys._getframe(1), method.__self__
    if magic != "run" or not _options(line) <= _KEPT:
        frame.callee = None
        return method(magic, line, *args, _stack_depth=2, **named)
    if not getattr(shell.find_line_magic(magic), "_ipython_magic_no_var_expand", False):
        line = shell.var_expand(line, 1)
    return _magic(frame, RunCall("%run", "", None, line), caller)


def _options(line: str) -> set[str]:
    """The letters of those that stand before the file."""
    return set("".join(takewhile(lambda word: word.startswith("-"), line.split()))) - {"-"}


def _magic(frame: Activation, call: RunCall, caller: FrameType, records: Any = None) -> Any:
    """IPython's own, but that it has us run the file."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()

    def runner(file: Any, variables: dict[str, Any], own: Any, exit_ignore: bool = False) -> None:
        name = call.name or _of_file(frame, Path(file).expanduser().resolve())
        if name is None:
            frame.callee = None
            shell.safe_execfile(file, variables, own, exit_ignore=exit_ignore)
            return
        home: Any = variables
        if variables is not frame.program.namespace:
            home = sys.modules[variables["__name__"]]
        ours = replace(call, name=name, home=home)
        _executed(lambda: _execute(frame, ours, caller, records), shell, file, exit_ignore=exit_ignore)

    more = {"file_finder": lambda path: path} if records is not None else {}  # which may be gone by now
    if isinstance(call.home, ModuleType):
        shell.new_main_mod = lambda *_: call.home
    try:
        return shell.find_line_magic("run")(call.line, runner=runner, **more)
    finally:
        vars(shell).pop("new_main_mod", None)


def _executed(execute: Callable[[], None], shell: Any, file: Any, *, exit_ignore: bool) -> None:
    """As safe_execfile() does it: errors are shown."""
    from IPython.utils.syspathcontext import prepended_to_syspath

    with prepended_to_syspath(str(Path(file).expanduser().resolve().parent)), shell.builtin_trap:
        try:
            execute()
        except SystemExit as status:
            if status.code and not exit_ignore:
                shell.showtraceback(exception_only=True)
        except Exception:  # an interrupt ends the job, and not the text alone
            shell.showtraceback(tb_offset=2)


_HOW: dict[str, Callable[..., Any]] = {"exec": _execute, "runpy": _in_module, "%run": _magic}
