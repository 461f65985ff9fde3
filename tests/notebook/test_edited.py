"""A module beside the notebook that is edited while the notebook has what it was."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.notebook.edited import Imported


def test_one_that_the_training_uses_is_told_until_it_is_imported_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    file = folder / "edited_beside.py"
    file.write_text("RATE = 1\n")
    module = importlib.import_module("edited_beside")
    imported = Imported()
    imported.look()
    assert not imported.edited(b"edited_beside.RATE", ())

    file.write_text("RATE = 100\n")
    imported.look()
    (told,) = imported.edited(b"edited_beside.RATE", ())
    assert "edited_beside.py was edited" in told and "importlib.reload(edited_beside)" in told
    assert imported.edited(b"", {"edited_beside"}) and not imported.edited(b"edited_beside_it", ())

    importlib.reload(module)
    assert not imported.edited(b"edited_beside.RATE", ())
    del sys.modules["edited_beside"]
