"""What a library keeps of a run that only the user's own module works with, as a `train.py` with its `main()`."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.surroundings.own_imports import libraries_of
from tests.command_line import gpufit
from tests.kernels import Kernel
from tests.surroundings.packages import PACKAGES

THEIRS = """
import os, time
{outside}
def main(hold):
    {inside}
    made = State(device="cpu", step=0)
    del made  # its __dict__ is the class's, which outlives it
    for step in range(6):
        State().step += 1
        print("step", step)
        while step == 2 and not os.path.exists(hold):
            time.sleep(0.01)
    return State().step
"""
IMPORT = "from borg import State"


@pytest.fixture(scope="module", autouse=True)
def modules(home: Path, kernel: Kernel) -> None:
    for name, text in PACKAGES.items():
        path = home / "site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "lib").mkdir()
    (home / "lib" / "imports_first.py").write_text(THEIRS.format(outside=IMPORT, inside=""))
    (home / "lib" / "imports_inside.py").write_text(THEIRS.format(outside="", inside=IMPORT))
    paths = [str(home / name) for name in ("lib", "site-packages")]
    kernel.check(f"import sys; sys.path[:0] = {paths!r}")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["imports_first", "imports_inside"])
def test_it_is_there_after_a_resume_and_in_the_notebook(
    module: str, kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None
) -> None:
    kernel.check(f"import {module}\nif 'borg' in sys.modules: sys.modules['borg'].State._shared.clear()")
    sent = kernel.send(f"%%gpufit train --name theirs\nlast = {module}.main({str(hold)!r})\n")
    kernel.until(sent, "step 2")
    assert gpufit(env, "release", "theirs").returncode == 0
    kernel.finish(sent)
    hold.touch()

    kernel.check("%gpufit resume theirs")

    kernel.check("import borg\nassert (last, borg.State().step, borg.State().device) == (6, 6, 'cpu')")


def test_they_are_known_by_what_its_names_lead_to_and_by_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_own_tool.py").write_text("import psutil\n")
    (tmp_path / "their_own_train.py").write_text(
        "import os\nfrom their_own_tool import psutil\nfrom numpy import zeros\nfrom anyio import Event as Happening\n"
        "class Trainer:\n    def fit(self):\n        def step():\n            import yaml.nodes\n        return step\n"
    )
    __import__("their_own_train")
    __import__("yaml.nodes")

    assert libraries_of({"their_own_train"}) == {"psutil", "numpy", "anyio", "yaml"}
    assert libraries_of({"numpy", "somewhere_else"}) == set()
