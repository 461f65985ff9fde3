"""The attributes that the text of cells assigns."""

from __future__ import annotations

import builtins
import collections
import collections.abc
import sys
from types import ModuleType

import pytest

from jupyter_gpufit.surroundings.assignments import assigned, taken_over, with_bodies


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


def test_names_that_a_loop_sets_are_those_that_its_cell_writes_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "Mapping", collections.abc.Mapping, raising=False)
    text = "for name in ('Mapping', 'no_such'):\n    setattr(collections, name, getattr(collections.abc, name))"

    found = list(assigned([text], {"collections": collections}))

    assert found == [(("collections", ()), "Mapping", collections.abc.Mapping)]


def test_what_all_have_anyway_was_taken_over_only_by_its_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    home, user = ModuleType("home_of_a_name"), ModuleType("user_of_a_name")
    for module in (home, user):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    mine = type("Mine", (), {})
    vars(home).update(as_list=list, Base=mine)
    vars(user).update(as_list=list, their_own=list, Based=type("Based", (mine, list), {"__module__": user.__name__}))
    text = "home.as_list = list; home.Base = Mine"

    found = list(taken_over([text], {"home": home}))

    assert [one for one in found if one[0][0] == user.__name__] == [
        ((user.__name__, ()), ("names", ({"as_list": list}, []))),
        ((user.__name__, ((".", "Based"),)), ("names", ({"__bases__": (mine, list)}, []))),
    ]
    assert {place[0] for place, _ in found} == {user.__name__}
