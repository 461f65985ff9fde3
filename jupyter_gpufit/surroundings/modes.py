"""Settings of libraries go with a cell and come back, as the generators do: a default dtype of an earlier cell holds.

The list is short, of what changes results or what is shown; for what a notebook has of that, see shown. Not carried:
attributes that were set on modules, os.environ and the working directory, other loggers and handlers.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

from ..graph.kinds.loggers import writes_to_a_standard_stream
from . import shown, torch_settings

NAME = "_gpufit_modes"  # among the variables that travel, and never among those the user sees
_INLINE = "matplotlib_inline.backend_inline"
Modes: TypeAlias = dict[str, bytes]  # each pickled by itself: one that cannot be must not keep the variables here


@dataclass(frozen=True)
class _Mode:
    """One library's settings."""

    library: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    only_changed: bool = False  # the value is what differs from the library's defaults, nothing if nothing does


def packed(value: Any) -> bytes:
    """Small: a job that begins on a nearly full disk has room for little."""
    return zlib.compress(pickle.dumps(value))


def opened(raw: bytes) -> Any:
    """Of a checkpoint of before they were compressed, too."""
    return pickle.loads(raw if raw.startswith(pickle.PROTO) else zlib.decompress(raw))


def modes() -> Modes:
    """The settings of every library that this process has loaded."""
    found: Modes = {}
    for name, mode in _MODES.items():
        if mode.library in sys.modules:
            try:
                found[name] = packed(mode.read(sys.modules[mode.library]))
            except Exception:  # a printer or filter of the notebook's own, or an older library
                continue
    return found


def put(found: Modes) -> None:
    """Set them here; a library is loaded for it only where something differs from its defaults."""
    for name, pickled in found.items():
        mode = _MODES[name]
        value = opened(pickled)
        if mode.library in sys.modules or (mode.only_changed and value):
            mode.write(import_module(mode.library), value)


@contextmanager
def travelling(namespace: dict[str, Any], since: Modes | None = None) -> Iterator[str]:
    """Let the settings, or those changed `since`, stand among the variables while those are packed."""
    namespace[NAME] = {name: one for name, one in modes().items() if (since or {}).get(name) != one}
    try:
        yield NAME
    finally:
        namespace.pop(NAME, None)


def arrived(namespace: dict[str, Any]) -> Modes:
    """Take what came with variables out of the namespace and set it here; returns what holds now."""
    put(namespace.pop(NAME, None) or {})
    return modes()


# torch ---------------------------------------------------------------------------------------------------------------


def _read_torch(torch: Any) -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        torch_settings.matmul_precision(),
    )


def _write_torch(torch: Any, value: tuple[Any, ...]) -> None:
    dtype, grad, (deterministic, warn_only), (benchmark, cudnn_deterministic), precision = value
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)
    # Only where it differs: the call imports torch's compiler, which takes longer than most cells.
    if (deterministic, warn_only) != (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    ):
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.deterministic = cudnn_deterministic
    torch_settings.put_matmul_precision(precision)


def _read_torch_threads(torch: Any) -> int:
    """How many compute: sums of many rows are split among them, and their last bits follow."""
    return int(torch.get_num_threads())


def _write_torch_threads(torch: Any, number: int) -> None:
    if torch.get_num_threads() != number:
        torch.set_num_threads(number)


def _read_default_device(torch: Any) -> str | None:
    device = import_module("torch.utils._device").CURRENT_DEVICE
    # Where `cuda` is a stand-in, torch is told this instead; see cuda/slot/side.py.
    return None if device is None else "cuda" if str(device) == "cpu:0" else str(device)


def _write_default_device(torch: Any, device: str | None) -> None:
    if device != _read_default_device(torch):
        torch.set_default_device(device)


def _read_torch_settings(_: Any) -> dict[str, Any]:
    return torch_settings.read_travelling()


def _write_torch_settings(_: Any, found: dict[str, Any]) -> None:
    torch_settings.put(found)


def _read_torch_printing(torch: Any) -> dict[str, Any]:
    return dict(vars(torch._tensor_str.PRINT_OPTS))


def _write_torch_printing(torch: Any, options: dict[str, Any]) -> None:
    vars(torch._tensor_str.PRINT_OPTS).update(options)


# decimal, numpy, pandas, matplotlib ----------------------------------------------------------------------------------


def _read_decimal(decimal: Any) -> Any:
    """The context, if it is not as it comes."""
    now, default = decimal.getcontext(), decimal.DefaultContext.copy()
    default.clear_flags()
    return None if repr(now) == repr(default) else now


def _write_decimal(decimal: Any, context: Any) -> None:
    decimal.setcontext(context or decimal.DefaultContext)  # a copy of that


def _read_numpy(numpy: Any) -> tuple[Any, Any]:
    return numpy.geterr(), numpy.get_printoptions()


def _write_numpy(numpy: Any, value: tuple[Any, Any]) -> None:
    numpy.seterr(**value[0])
    numpy.set_printoptions(**value[1])


def _pandas_options(pandas: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each option, its value, and its default."""
    config = import_module("pandas._config.config")
    for name, option in config._registered_options.items():
        if name not in config._deprecated_options:
            yield name, pandas.get_option(name), option.defval


def _read_pandas(pandas: Any) -> dict[str, Any]:
    return {name: value for name, value, default in _pandas_options(pandas) if value != default}


def _write_pandas(pandas: Any, changed: dict[str, Any]) -> None:
    for name, value, default in list(_pandas_options(pandas)):
        if value != changed.get(name, default):
            pandas.set_option(name, changed.get(name, default))


def _plot_defaults(matplotlib: Any) -> dict[str, Any]:
    """Without where figures are drawn, which is each process's own.

    Matplotlib's own way through them sets filters of warnings, at which Python forgets what it has shown.
    """
    own = ("backend", "backend_fallback", "interactive", "figure.hooks")
    return {name: value for name, value in dict.items(matplotlib.rcParamsDefault) if name not in own}


def _read_plots(matplotlib: Any) -> dict[str, Any]:
    now = matplotlib.rcParams
    return {name: now[name] for name, default in _plot_defaults(matplotlib).items() if now[name] != default}


def _write_plots(matplotlib: Any, changed: dict[str, Any]) -> None:
    wanted = _plot_defaults(matplotlib) | changed
    now = matplotlib.rcParams
    now.update({name: value for name, value in wanted.items() if now[name] != value})


def _read_colours(matplotlib: Any) -> dict[str, Any]:
    """Colour maps beside matplotlib's own: an import registers them (seaborn's), and a setting may name one."""
    known = matplotlib.colormaps
    return {name: known[name] for name in known if name not in known._builtin_cmaps}


def _write_colours(matplotlib: Any, found: dict[str, Any]) -> None:
    for name, colours in found.items():
        if name not in matplotlib.colormaps:
            matplotlib.colormaps.register(colours, name=name)


def _read_inline(matplotlib: Any) -> str:
    """By which name figures are shown in the notebook although the environment says otherwise: `%matplotlib inline`."""
    now = dict.get(matplotlib.rcParams, "backend")  # asked for in the ordinary way, one is chosen
    return str(now) if _is_inline(now) and not _is_inline(os.environ.get("MPLBACKEND")) else ""


def _write_inline(matplotlib: Any, wanted: str | bool) -> None:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if wanted and shell is not None and not _is_inline(dict.get(matplotlib.rcParams, "backend")):
        wanted = f"module://{_INLINE}" if wanted is True else wanted  # as checkpoints had it once
        matplotlib.rcParams["backend"] = wanted  # first: it is asked for while the other one is loaded
        if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
            pyplot.switch_backend(wanted)
        import_module(_INLINE).configure_inline_support(shell, wanted)


def _is_inline(backend: Any) -> bool:
    return backend in ("inline", f"module://{_INLINE}")


# multiprocessing -----------------------------------------------------------------------------------------------------


def _read_start(multiprocessing: Any) -> str | None:
    """How processes are started, where somebody has said so."""
    said: str | None = multiprocessing.get_start_method(allow_none=True)
    return said


def _write_start(multiprocessing: Any, method: str | None) -> None:
    if method != _read_start(multiprocessing):
        multiprocessing.set_start_method(method, force=True)


# warnings and logging ------------------------------------------------------------------------------------------------


def _read_filters(_: Any) -> list[Any]:
    return [one for one in warnings.filters if not _notebooks_own(one) and not _sympys(one)]


def _notebooks_own(one: Any) -> bool:
    """Whether its category would not be found at the other end."""
    return str(one[2].__module__) == "__main__"


def _sympys(one: Any) -> bool:
    """Whether it is sympy's own, which would load sympy at the other end, and that takes longer than many a cell.

    An optimizer loads torch's compiler, and with it sympy, which sets its filter itself wherever it is loaded.
    """
    return str(one[0]) == "once" and str(one[2].__module__).startswith("sympy.")


def _write_filters(_: Any, filters: list[Any]) -> None:
    filters = [*filter(_notebooks_own, warnings.filters), *filters, *filter(_sympys, warnings.filters)]
    warnings.resetwarnings()  # which also makes Python forget what it has shown under the old ones
    warnings.filters[:] = filters  # type: ignore[index]  # a list, though declared as a Sequence


_Form: TypeAlias = tuple[str | None, str | None, Literal["%", "{", "$"]]
_Handler: TypeAlias = tuple[str, int, _Form | None]  # its stream, its level, how it writes
_STYLES: dict[type, Literal["%", "{", "$"]] = {
    logging.PercentStyle: "%",
    logging.StrFormatStyle: "{",
    logging.StringTemplateStyle: "$",
}


def _handlers() -> list[tuple[logging.Handler, _Handler]]:
    """The root's handlers that do nothing but write to a standard stream."""
    found: list[tuple[logging.Handler, _Handler]] = []
    for handler in logging.root.handlers:
        if isinstance(handler, logging.StreamHandler) and writes_to_a_standard_stream(handler):
            name = "stderr" if handler.stream in (sys.stderr, sys.__stderr__) else "stdout"
            form = handler.formatter
            looks = None if form is None else (form._fmt, form.datefmt, _STYLES[type(form._style)])
            found.append((handler, (name, handler.level, looks)))
    return found


def _read_logging(_: Any) -> tuple[int, list[_Handler]]:
    return logging.root.level, [looks for _, looks in _handlers()]


def _write_logging(_: Any, value: tuple[int, list[_Handler]]) -> None:
    level, wanted = value
    logging.root.setLevel(level)
    missing = list(wanted)
    for handler, looks in _handlers():
        if looks in missing:
            missing.remove(looks)
        else:
            logging.root.removeHandler(handler)
    for stream, own_level, form in missing:
        handler = logging.StreamHandler(getattr(sys, stream))
        handler.setLevel(own_level)
        if form is not None:
            handler.setFormatter(logging.Formatter(*form))
        logging.root.addHandler(handler)


_Levels: TypeAlias = tuple[int, dict[str, tuple[int, bool, bool]]]


def _read_levels(_: Any) -> _Levels:
    """What is off for all, and of what others than the root are set to: level, off, passing on."""
    found = logging.root.manager.loggerDict.items()
    named = {name: (one.level, one.disabled, one.propagate) for name, one in found if isinstance(one, logging.Logger)}
    return logging.root.manager.disable, {name: how for name, how in sorted(named.items()) if how != (0, False, True)}


def _write_levels(_: Any, value: _Levels) -> None:
    logging.disable(value[0])
    for name, (level, disabled, propagate) in value[1].items():
        logger = logging.getLogger(name)
        logger.disabled, logger.propagate = disabled, propagate
        logger.setLevel(level)


_MODES = {
    "torch": _Mode("torch", _read_torch, _write_torch),
    "torch threads": _Mode("torch", _read_torch_threads, _write_torch_threads),
    "torch device": _Mode("torch", _read_default_device, _write_default_device),
    "torch settings": _Mode("torch", _read_torch_settings, _write_torch_settings),
    "torch printing": _Mode("torch", _read_torch_printing, _write_torch_printing),
    "decimal": _Mode("decimal", _read_decimal, _write_decimal, only_changed=True),
    "numpy": _Mode("numpy", _read_numpy, _write_numpy),
    "pandas": _Mode("pandas", _read_pandas, _write_pandas, only_changed=True),
    "matplotlib colours": _Mode("matplotlib", _read_colours, _write_colours, only_changed=True),
    "matplotlib": _Mode("matplotlib", _read_plots, _write_plots, only_changed=True),
    "matplotlib inline": _Mode("matplotlib", _read_inline, _write_inline, only_changed=True),
    "IPython": _Mode("IPython", shown.read, shown.write),
    "multiprocessing": _Mode("multiprocessing", _read_start, _write_start, only_changed=True),
    "warnings": _Mode("warnings", _read_filters, _write_filters),
    "logging": _Mode("logging", _read_logging, _write_logging),
    "loggers": _Mode("logging", _read_levels, _write_levels),
}
