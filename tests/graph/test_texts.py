"""Texts that a cell or a module of the user's compares by `is` are over there what its literals are."""

from __future__ import annotations

import linecache
import os
import site
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

from jupyter_gpufit.graph import texts
from jupyter_gpufit.graph.texts import compared_by_identity

from .crossing import cross_here, notebook

BEFORE = "layers = [('conv_9', 1), ('pool_9', 2)]; made = ''.join(['conv', '_9']); plain = 'pool_9'\n"
CELL = "seen = [name is 'conv_9' for name, _ in layers], made is 'conv_9'; layers += [('conv_9', 3)]; back = 'conv_9'"


@pytest.mark.filterwarnings("ignore:.* with .* literal:SyntaxWarning")
def test_they_are_the_literals_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<cell>", (len(CELL), None, [CELL], "<cell>"))
    namespace = notebook(BEFORE)

    cross_here(namespace, CELL)

    assert namespace["seen"] == ([True, False], False)  # made was no literal here, either
    assert namespace["layers"][2][0] is sys.intern("conv_9") and namespace["back"] is sys.intern("conv_9")


def test_of_modules_those_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "learner.py"
    path.write_text("def f(name):\n    return name is not 'leaky_9' or name is None or name == 'other_9'\n")
    module = types.ModuleType("learner")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "learner", module)
    monkeypatch.setitem(linecache.cache, "<magic>", (0, None, ["run('if x is \\'quoted_9\\': pass')"], "<magic>"))

    found = {text for text, _, _ in compared_by_identity()}

    assert {"leaky_9", "quoted_9"} <= found and "other_9" not in found


@pytest.mark.parametrize(
    ("folder", "theirs"),
    [
        (f"{sys.prefix}-work", True),
        (f"{sys.prefix}/lib/python3.11", False),
        (f"{sys.prefix}/src/app", True),  # where images put people's code, beside a Python of the system's
        (site.getusersitepackages(), False),
        ("/opt/other/lib/python3/dist-packages", False),
        ("/home/ada/site-packages-notes", True),
    ],
)
def test_what_was_installed_is_not_the_users(folder: str, theirs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(file: str, time: int) -> frozenset[str]:
        asked.append(file)
        return frozenset()

    module = types.ModuleType("learner")
    module.__file__ = f"{folder}/learner.py"
    monkeypatch.setitem(sys.modules, "learner", module)
    monkeypatch.setattr(texts, "_in_file", read)
    monkeypatch.setattr(texts, "os", SimpleNamespace(stat=lambda file: os.stat(__file__), path=os.path))

    compared_by_identity()

    assert (module.__file__ in asked) is theirs


def test_a_source_is_read_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(1100):
        path = tmp_path / f"part_{number}.py"
        path.write_text(f"same = name is 'part_{number}'\n")
        module = types.ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, path.stem, module)
    first, before = compared_by_identity(), texts._in_file.cache_info().misses

    assert compared_by_identity() == first and len(first) >= 1100
    assert texts._in_file.cache_info().misses == before


def test_a_parser_of_a_command_line_knows_its_mark_for_no_value() -> None:
    namespace = notebook(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n"
        "parser.add_argument('--quiet', action='store_true', default=argparse.SUPPRESS)"
    )

    cross_here(namespace, "found = vars(parser.parse_args(['--lr', '1'])); parser.add_argument('--more', default=2)")

    assert namespace["found"] == {"lr": 1.0}
    assert vars(namespace["parser"].parse_args([])) == {"lr": 0.1, "more": 2}
