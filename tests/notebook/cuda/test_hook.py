from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.notebook.cuda.hook import AfterImport


def test_it_tells_once_the_module_is_there_and_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    told: list[int] = []
    hook = AfterImport("heavy", lambda: told.append(sys.modules["heavy"].value))
    hook.begin()
    assert told == [] and "heavy" not in sys.modules

    import heavy  # type: ignore[import-not-found]

    assert told == [1] and hook not in sys.meta_path and heavy.__spec__.loader.get_source("heavy") == "value = 1\n"
    AfterImport("heavy", lambda: told.append(2)).begin()  # it is there already
    assert told == [1, 2]
    del sys.modules["heavy"]


def test_who_only_asks_for_the_module_is_not_the_one_who_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers, datasets and the cells of Colab ask whether there is torch, and import it later."""
    (tmp_path / "asked_for.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    told: list[str] = []
    hook = AfterImport("asked_for", lambda: told.append("told"))
    hook.begin()
    assert importlib.util.find_spec("asked_for") and importlib.util.find_spec("asked_for") and told == []

    import asked_for  # type: ignore[import-not-found]

    assert told == ["told"] and asked_for and hook not in sys.meta_path
    del sys.modules["asked_for"]


def test_an_import_that_fails_is_waited_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("import not_there_yet\n")
    monkeypatch.syspath_prepend(tmp_path)
    told: list[str] = []
    hook = AfterImport("broken", lambda: told.append("told"))
    hook.begin()
    with pytest.raises(ModuleNotFoundError):
        import broken  # type: ignore[import-not-found]
    (tmp_path / "not_there_yet.py").write_text("")
    import broken

    assert told == ["told"] and broken and hook not in sys.meta_path
    del sys.modules["broken"], sys.modules["not_there_yet"]
