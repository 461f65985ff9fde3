"""The attributes that the text of cells assigns."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType

import pytest

from jupyter_gpufit.surroundings.assignments import assigned, with_bodies


class Options(ModuleType):
    """Keeps elsewhere what is assigned to it, as pandas' options do."""

    def __setattr__(self, name: str, value: object) -> None: ...

    def __getattr__(self, name: str) -> int:
        return 3


def test_what_is_added_to_the_builtins_goes_and_of_sys_what_is_no_table_and_no_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "builtins.shout = len; sys.tracebacklimit = 4; sys.stdout = f; sys.modules = {}; options.width = 3"
    monkeypatch.setattr(builtins, "shout", len, raising=False)
    monkeypatch.setattr(sys, "tracebacklimit", 4, raising=False)

    found = list(assigned([text], {"builtins": builtins, "sys": sys, "options": Options("options")}))

    assert found == [(("builtins", ()), "shout", len), (("sys", ()), "tracebacklimit", 4)]


def test_what_an_earlier_training_cell_assigned_is_found_in_it() -> None:
    body = "torch.nn.Linear.extra = 1\n"
    waited = f"await get_ipython().magics_manager.registry['GpufitMagics'].awaited('train', {body!r})\n"
    timed = f"get_ipython().run_cell_magic('time', '', {waited!r})\n"

    assert with_bodies("x = 1") == ("x = 1",) and with_bodies(timed) == (timed, waited, body)
    assert with_bodies("get_ipython().run_cell_magic(") == ("get_ipython().run_cell_magic(",)
