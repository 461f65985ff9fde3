"""What a job is known by: the notebook of its kernel."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.utils.capture import capture_output

from jupyter_gpufit.jobs.renamed import note_renamed
from jupyter_gpufit.notebook.new_job import new_job
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.directories import data_dir
from tests.kernels import Kernel, running_kernel

ASK = """
from jupyter_gpufit.notebook.new_job import notebook_of
from jupyter_gpufit.settings import load_settings
print(notebook_of(get_ipython(), load_settings()))
"""


def asked(kernel: Kernel) -> str:
    return kernel.check(ASK).stdout.strip()


@pytest.mark.slow
def test_a_kernel_that_is_restarted_knows_its_notebook_by_the_new_name(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "data"))
    note_renamed(settings, "/untitled.ipynb", "/earlier.ipynb")  # another one, before this kernel began
    renames = data_dir(settings) / "renamed.jsonl"
    note = json.loads(renames.read_text())
    # Long before: the system tells a process' start to the second.
    renames.write_text(json.dumps({**note, "time": note["time"] - 60}) + "\n")
    env = {**os.environ, "JPY_SESSION_NAME": "/untitled.ipynb", "GPUFIT_DATA": settings.data}
    with running_kernel(env, tmp_path) as kernel:
        assert asked(kernel) == "/untitled.ipynb"
        note_renamed(settings, "/untitled.ipynb", "/train.ipynb")
        assert asked(kernel) == "/train.ipynb"
        kernel.restart()
        assert asked(kernel) == "/train.ipynb"


def test_a_cell_whose_output_is_captured_is_not_told_as_the_place_for_it(tmp_path: Path) -> None:
    kernel = SimpleNamespace(get_parent=lambda: {"metadata": {"cellId": "the cell"}})
    options = Namespace(name="x", gpu=None, memory=None, exclusive=False, gpus=1, fit="")

    def told(display_pub: object = None) -> str:
        shell: Any = SimpleNamespace(kernel=kernel, display_pub=display_pub)
        return new_job(shell, Settings(data=str(tmp_path), runtime=str(tmp_path)), options, "train", "").cell

    assert told() == "the cell"
    assert told(CapturingDisplayPublisher()) == ""  # %%capture
    with capture_output(display=False):  # %%capture --no-display
        assert told() == ""
