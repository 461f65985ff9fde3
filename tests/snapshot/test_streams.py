"""The write() of a standard stream, which a bar keeps, is that of the process that goes on."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from typing import Any
from unittest.mock import patch

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_gpufit.graph.kinds.streams import find_method
from jupyter_gpufit.surroundings import process
from jupyter_gpufit.worker.streams import CapturedStream

from .test_restore import through


@contextmanager
def in_a_cell() -> Iterator[io.StringIO]:
    """What is written to stderr, through a worker's stream whose write() IPython has replaced, as it does in a cell."""
    said = io.StringIO()

    def take_text(text: str) -> bool:
        said.write(text)
        return True

    stream = CapturedStream("stderr", 2, take=take_text, catch_up=lambda: None)
    no_loggers = patch.object(process, "_loggers", dict)  # torch's, which write where stderr led before
    with redirect_stderr(stream), teed(), no_loggers:
        yield said


def teed() -> AbstractContextManager[None]:
    shell: Any = InteractiveShell()
    if not hasattr(shell, "_tee"):
        pytest.skip("this IPython keeps no outputs")
    found: AbstractContextManager[None] = shell._tee(channel="stderr")
    return found


def test_a_bar_on_stderr_goes_on() -> None:
    there: dict[str, Any] = {}

    with in_a_cell() as said:
        through("from tqdm import trange\nbar = trange(9, mininterval=0, miniters=1); bar.update(1)", there)
        assert there["bar"].fp._wrapped is sys.stderr
        there["bar"].update(4)
        there["bar"].close()

    assert "5/9" in said.getvalue()


def test_methods_of_a_stream_are_found_again() -> None:
    there: dict[str, Any] = {}

    with in_a_cell() as said:
        through("import sys\nw, f, lines = sys.stderr.write, sys.stderr.flush, sys.stderr.writelines", there)
        there["w"]("told")
        there["f"]()
        assert there["w"] is sys.stderr.write and there["lines"] == find_method("stderr", "writelines")

    assert "told" in said.getvalue()


def test_the_write_of_an_earlier_cell_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    there: dict[str, Any] = {}

    with in_a_cell():
        with teed():
            monkeypatch.setattr(sys, "earlier", sys.stderr.write, raising=False)
        through("import sys\nw = sys.earlier", there)
        assert there["w"] is sys.stderr.write and there["w"] is not sys.earlier  # type: ignore[attr-defined]
