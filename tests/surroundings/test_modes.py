"""Settings that a notebook makes hold where its cell runs."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import pickle
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from jupyter_gpufit.surroundings import modes, torch_settings


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    level, handlers = logging.root.level, list(logging.root.handlers)
    with warnings.catch_warnings():
        yield
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers


@pytest.mark.parametrize(("action", "module"), [("ignore", "__main__"), ("once", "sympy.utilities.exceptions")])
def test_a_filter_that_only_the_notebook_can_have_or_that_loads_sympy_stays_and_the_others_go(
    action: Any, module: str
) -> None:
    own = type("Own", (UserWarning,), {"__module__": module})
    warnings.simplefilter(action, own)
    warnings.simplefilter("error", ResourceWarning)

    found = modes.opened(modes.modes()["warnings"])
    modes.put({"warnings": pickle.dumps(found)})

    assert ("error", None, ResourceWarning, None, 0) in found and all(one[2] is not own for one in found)
    assert any(one[2] is own for one in warnings.filters)


@pytest.mark.parametrize(("text", "style"), [("%(message)s!", "%"), ("{message}!", "{"), ("$message!", "$")])
def test_a_plain_handler_is_made_again_once_and_goes_when_it_went(text: str, style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(text, style=style))  # type: ignore[arg-type]
    before = modes.modes()["logging"]
    logging.root.addHandler(handler)
    found = modes.modes()["logging"]

    logging.root.removeHandler(handler)
    modes.put({"logging": found})
    modes.put({"logging": found})

    (made,) = [one for one in logging.root.handlers if type(one) is logging.StreamHandler]
    assert made.format(logging.makeLogRecord({"msg": "it works"})) == "it works!"
    modes.put({"logging": before})
    assert made not in logging.root.handlers


def test_only_what_changed_goes_back() -> None:
    namespace = {"a": 1}
    then = modes.arrived(namespace)
    logging.root.setLevel(logging.root.level + 1)

    with modes.travelling(namespace, then) as name:
        assert set(namespace[name]) == {"logging"}  # type: ignore[call-overload]

    assert namespace == {"a": 1}


def test_the_number_of_threads_that_compute_goes_along() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        found = modes.modes()["torch threads"]
        torch.set_num_threads(2)
        modes.put({"torch threads": found})
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_what_torch_looks_for_and_computes_by_goes_along() -> None:
    import torch

    before = modes.modes()["torch settings"]
    torch.autograd.set_detect_anomaly(True)
    torch.backends.cuda.enable_flash_sdp(False)
    found = modes.modes()["torch settings"]

    modes.put({"torch settings": before})
    assert not torch.is_anomaly_enabled() and torch.backends.cuda.flash_sdp_enabled()
    modes.put({"torch settings": found})
    assert torch.is_anomaly_enabled() and not torch.backends.cuda.flash_sdp_enabled()
    modes.put({"torch settings": before})


def test_how_loud_other_loggers_are_goes_along() -> None:
    quiet = logging.getLogger("a.library.that.talks")
    quiet.setLevel(logging.ERROR)
    quiet.propagate = False
    found = {"loggers": modes.modes()["loggers"]}
    quiet.setLevel(logging.NOTSET)
    quiet.propagate = True

    modes.put(found)

    assert (quiet.level, quiet.propagate, quiet.disabled) == (logging.ERROR, False, False)
    quiet.setLevel(logging.NOTSET)
    quiet.propagate = True


_WAYS = {
    "by cuda's flag": "matmul.allow_tf32 = True",
    "for all": "torch.set_float32_matmul_precision('medium')",
    "back by cuda's flag": "matmul.allow_tf32 = True; matmul.allow_tf32 = False",
    "in turns": "torch.set_float32_matmul_precision('high'); matmul.allow_tf32 = False",
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("before", [*_WAYS, ""])
def test_how_exactly_matrices_are_multiplied_is_as_it_was_said(way: str, before: str) -> None:
    """One way to say it says less than another: after both, torch would not answer, and no setting of it came back."""
    found = torch_settings.matmul_precision()
    try:
        exec(_WAYS[way], {"torch": torch, "matmul": torch.backends.cuda.matmul})
        wanted, mode = torch_settings.matmul_precision(), {"torch": modes.modes()["torch"]}
        torch_settings.put_matmul_precision(found)
        exec(_WAYS.get(before, ""), {"torch": torch, "matmul": torch.backends.cuda.matmul})

        modes.put(mode)

        assert torch_settings.matmul_precision() == wanted
        torch.backends.cuda.matmul.allow_tf32 = False
        assert torch_settings.matmul_precision()[0] == (None if way in ("for all", "in turns") else "highest")
    finally:
        torch_settings.put_matmul_precision(found)
    assert torch_settings.matmul_precision() == found


def test_colour_maps_that_an_import_registered_go_along() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    colors = importlib.import_module("matplotlib.colors")
    own = colors.ListedColormap([(0.1, 0.2, 0.3), (0.4, 0.5, 0.6)], name="of_a_library")
    with matplotlib.rc_context():
        matplotlib.colormaps.register(own)
        try:
            matplotlib.rcParams["image.cmap"] = "of_a_library"
            found = modes.modes()
            matplotlib.colormaps.unregister("of_a_library")
            matplotlib.rcParams["image.cmap"] = "viridis"
            modes.put(found)
            assert matplotlib.rcParams["image.cmap"] == "of_a_library"
            assert matplotlib.colormaps["of_a_library"] == own
            modes.put(found)  # one that is there already stays
        finally:
            matplotlib.colormaps.unregister("of_a_library")
    assert modes.opened(modes.modes()["matplotlib colours"]) == {}


def test_how_processes_are_started_goes_along() -> None:
    before = multiprocessing.get_start_method(allow_none=True)
    try:
        for said in ("spawn", None):
            multiprocessing.set_start_method(said, force=True)
            found = modes.modes()["multiprocessing"]
            multiprocessing.set_start_method("forkserver", force=True)
            modes.put({"multiprocessing": found})
            assert multiprocessing.get_start_method(allow_none=True) == said
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_to_look_at_settings_makes_nobody_forget_what_was_shown() -> None:
    shown: list[str] = []

    def says() -> None:
        warnings.warn("once", UserWarning, stacklevel=1)

    warnings.resetwarnings()
    warnings.showwarning = lambda message, *rest, **more: shown.append(str(message))
    says()
    modes.modes()
    says()

    assert shown == ["once"]
