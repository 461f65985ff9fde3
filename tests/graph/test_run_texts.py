"""A text goes along with a function only where it is proved to be the one that made it."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from jupyter_gpufit.graph.run_texts import RunTexts, codes_of
from jupyter_gpufit.system.codes import name_of

TEXT = "def of_a_text(n):\n    return [one * 2 for one in range(n)]\n"
OTHER = TEXT.replace("2", "3")


def code_of(text: str, filename: str = "<string>") -> CodeType:
    made: dict[str, Any] = {}
    exec(compile(text, filename, "exec", dont_inherit=True), made)
    code: CodeType = made["of_a_text"].__code__
    return code


def found(code: CodeType, **variables: Any) -> dict[str, tuple[str, str]]:
    texts = RunTexts(variables)
    texts.take(code)
    return texts.found


def test_that_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.py"
    path.write_text(TEXT)
    assert found(code_of(TEXT, str(path))) == {name_of(str(path), TEXT): (str(path), TEXT)}


def test_none_of_a_file_that_has_changed_or_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    path.write_text(OTHER)
    assert found(code_of(TEXT, str(path))) == {}
    assert found(code_of(TEXT, str(tmp_path / "gone.py"))) == {}


def test_of_several_variables_the_one_that_makes_this_code() -> None:
    assert found(code_of(TEXT), other=OTHER, broken="def (", own=TEXT, number=3) == {
        name_of("<string>", TEXT): ("<string>", TEXT)
    }
    assert found(code_of(TEXT), other=OTHER) == {}


@pytest.mark.parametrize("cell", ["exec({text!r})", "exec(open({path!r}).read())"], ids=["the text", "its file"])
def test_one_that_a_cell_has_or_names(cell: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "named.py"
    path.write_text(TEXT)
    made = cell.format(text=TEXT, path=str(path))
    monkeypatch.setitem(linecache.cache, "<cell of a text>", (len(made), None, [made], "<cell of a text>"))
    assert found(code_of(TEXT)) == {name_of("<string>", TEXT): ("<string>", TEXT)}


def test_texts_of_one_file_are_told_apart() -> None:
    texts = RunTexts({"one": TEXT, "other": OTHER})
    texts.take(code_of(TEXT))
    texts.take(code_of(OTHER))
    assert sorted(text for _, text in texts.found.values()) == sorted((TEXT, OTHER))


def test_what_is_installed_is_never_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "site-packages" / "lib.py"
    path.parent.mkdir()
    path.write_text(TEXT)
    assert found(code_of(TEXT, str(path))) == {}


def test_a_text_that_is_no_python_has_no_code() -> None:
    assert codes_of("def (", "<string>") == codes_of("\0", "<string>") == frozenset()
