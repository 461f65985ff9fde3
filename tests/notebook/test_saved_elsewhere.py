"""A saved notebook, as those read it who have no kernel and no widgets: nbconvert, nbviewer, GitHub, VS Code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter

from jupyter_gpufit.notebook.saved import WIDGET_VIEW
from tests.kernels import TIMEOUT, environment

CELL = """%%gpufit train --name saved --memory 1GiB --widget
from tqdm.notebook import tqdm
import ipywidgets as W
display(W.IntProgress(value=3, max=4, description="own"))
seen = W.Output()
with seen:
    print("kept <aside>")
choice = W.Dropdown(options=["sgd", "adam"], value="adam", description="optimizer")
rows = W.HBox([W.Button(description="go"), W.Checkbox(value=True, description="shuffle")]), W.HTML("<b>bold</b>")
display(W.VBox([W.IntProgress(value=1, max=4, description="epochs"), choice, *rows, W.Password(value="secret"), seen]))
for step in tqdm(range(60), desc="steps"):
    loss = 1 / (1 + step)
print("the end")
"""
BOX = """epochs 1 of 4
optimizer adam
[go] ☑ shuffle
bold
••••
kept <aside>"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a front end saves that knows no more of widgets than that they are there, as JupyterLab by default."""
    home: Path = tmp_path_factory.mktemp("elsewhere")
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in ("%load_ext jupyter_gpufit", CELL)])
    (home / "new.ipynb").write_text(v4.writes(notebook))
    run = [sys.executable, "-m", "nbconvert", "--execute", "--ExecutePreprocessor.store_widget_state=False"]
    subprocess.run(
        [*run, "--to=notebook", "--output=saved.ipynb", "new.ipynb"],
        env=environment(home), cwd=home, check=True, capture_output=True, timeout=TIMEOUT,
    )  # fmt: skip
    return v4.reads((home / "saved.ipynb").read_text())


@pytest.mark.slow(10)
def test_what_stands_there_for_widgets_can_be_read_anywhere(saved: Any) -> None:
    nbformat.validate(saved)
    outputs = saved.cells[1].outputs
    card, own, box = (output for output in outputs if WIDGET_VIEW in output.get("data", {}))
    # VS Code takes what is richest of the rest where a widget has no kernel.
    assert "saved: done" in card.data["text/html"] and "saved: done" in card.data["text/plain"]
    assert own.data["text/plain"] == "IntProgress(value=3, description='own', max=4)"  # as of an ordinary kernel

    assert box.data["text/plain"] == BOX
    assert "kept &lt;aside&gt;" in box.data["text/html"]

    exporters: list[Any] = [HTMLExporter, MarkdownExporter]
    for exporter in exporters:
        page, _ = exporter().from_notebook_node(saved)
        assert "the end" in page and "saved: done" in page
        assert "60/60" in page and "loss" in page
        assert "optimizer adam" in page
        assert "(children=" not in page and "running on" not in page
