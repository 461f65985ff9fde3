"""A module beside the notebook that is edited while the notebook has what it was."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.notebook.edited import Imported
from tests.kernels import Kernel


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


@pytest.mark.slow
def test_what_autoreload_has_taken_up_is_not_told(kernel: Kernel, home: Path) -> None:
    file = home / "reloaded_beside.py"
    file.write_text("def rate():\n    return 1\n")
    kernel.check(
        f"import sys; sys.path.insert(0, {str(home)!r})\n%load_ext autoreload\n%autoreload 2\nimport reloaded_beside"
    )
    shown = ""
    for number in (10, 1000):
        shown += kernel.check("%%gpufit train\nfound = reloaded_beside.rate()\n").shown
        file.write_text(f"def rate():\n    return {number}\n")
        os.utime(file, (2_000_000_000 + number, 2_000_000_000 + number))  # as if a while had passed

    shown += kernel.check("%%gpufit train\nfound = reloaded_beside.rate()\n").shown

    assert "was edited" not in shown
    kernel.check("assert found == reloaded_beside.rate() == 1000, found")
