"""Every example notebook runs, as `make demo` runs the first; a few, of which others have tests, with `make soak`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from nbformat import from_dict

from tests.kernels import environment
from tests.libraries import need

ROOT = Path(__file__).parents[1]
RUN_BY_ANOTHER = ("05_the_other",)
NOTEBOOKS = [one for one in sorted((ROOT / "examples").glob("*.ipynb")) if one.stem not in RUN_BY_ANOTHER]
# Deployments, queues and estimates have tests of their own, and the two trainers run in six.
SOAKED = ("02_deploy", "05_two_notebooks", "06_how_large", "07_trainer", "08_lightning")
LIBRARIES = {"07_trainer": ("transformers", "accelerate"), "08_lightning": ("lightning",)}


def can_run(notebook: Path) -> bool:
    return all(find_spec(library) for library in LIBRARIES.get(notebook.stem, ()))


@pytest.fixture(scope="module")
def executed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the executed copies are: all of one kernel with one spare, so that torch is imported twice and no more."""
    place = tmp_path_factory.mktemp("examples")
    asked = {
        item.callspec.params["notebook"]
        for item in request.session.items
        if hasattr(item, "callspec") and item.path == request.path
    }
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "run.py", *filter(can_run, sorted(asked))],
        env=environment(place, GPUFIT_SPARE_WORKER="1"),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr
    yield place / "build" / "demo"


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    "notebook",
    [pytest.param(one, marks=pytest.mark.soak if one.stem in SOAKED else (), id=one.stem) for one in NOTEBOOKS],
)
def test_an_example_runs_and_shows_its_result(notebook: Path, executed: Path) -> None:
    need(*LIBRARIES.get(notebook.stem, ()))
    cells = json.loads((executed / notebook.name).read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert "loss" in str(shown)
    draws = any("plt." in "".join(cell["source"]) for cell in cells)
    assert bool(list(executed.glob(f"{notebook.stem}-*.png"))) == draws


def display(text: str, state: str = "") -> dict[str, Any]:
    mark = {"gpufit": {"state": state}} if state else {}
    return {"msg_type": "display_data", "content": {"data": {"text/plain": text}, "metadata": mark, "transient": {}}}


def printed(text: str) -> dict[str, Any]:
    return {"msg_type": "stream", "content": {"name": "stdout", "text": text}}


def test_the_demo_tells_a_story_of_few_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = spec_from_file_location("run_example", ROOT / "examples" / "run.py")
    assert spec is not None and spec.loader is not None
    example: Any = module_from_spec(spec)
    spec.loader.exec_module(example)
    example.OUT = tmp_path
    notebook = from_dict(json.loads((ROOT / "examples" / "01_train_a_cell.ipynb").read_text()))  # type: ignore[no-untyped-call]
    client, cells = example.ShowingClient(notebook), notebook.cells
    client.reset_execution_trackers()
    client.name, client.story, client.clear_before_next_output = "moons", True, False
    estimate = "estimate: 144 MiB (144-153), high confidence; claims 512.0 MiB"
    trains = [
        *(display(f"moons: {state}", state) for state in ("estimating", "estimating")),
        display(estimate),
        display(f"moons: queued {estimate}", "queued"),  # for the moment of a look
        *(display(f"moons: {state}", state) for state in ("starting", "running", "running")),
        *(printed(f"epoch {epoch}: loss 0.01\n") for epoch in (20, 40)),
        display("moons: done", "done"),
    ]
    picture = {"msg_type": "display_data", "content": {"data": {"image/png": "AAAA"}, "metadata": {}, "transient": {}}}
    shown = {4: trains, 6: [printed("99.9% are told apart\n"), display("a remark")], 7: [picture], 8: [display("jobs")]}
    for number, cell in enumerate(cells):
        client.show_cell(cell, number)
        for message in shown.get(number, []):
            header = {"header": {"msg_type": message["msg_type"]}, "parent_header": {"msg_id": "1"}}
            client.process_message(message | header, cell, number)
    told = capsys.readouterr().out.strip().splitlines()
    assert told == [
        *("Train a cell on the device where it fits:", "%%gpufit train --name moons", "moons: estimating", estimate),
        *("moons: running", "epoch 20: loss 0.01", "epoch 40: loss 0.01", "moons: done", "99.9% are told apart"),
    ]
    assert client.pictures == [tmp_path / "moons-7.png"] and client.pictures[0].exists()
    assert str(example._here(Path.cwd() / ".venv-3.13")) == ".venv-3.13" and str(example._here(Path("/opt"))) == "/opt"
