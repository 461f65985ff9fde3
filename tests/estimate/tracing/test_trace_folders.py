"""What a cell makes in a trial run, it can look at, rename, copy and delete there, and nobody else sees any of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.estimate.traced import traced

pytestmark = pytest.mark.slow

SETUP = "import os, shutil, tempfile, torch\nfrom pathlib import Path\nos.chdir({here!r})\n"
END = "\nmodel = torch.nn.Linear(4, 4).cuda(); model(torch.zeros(2, 4, device='cuda')).sum().backward()\n"
CELLS = {
    "room on the disk below a folder": """
        os.makedirs("cache/sets"); os.makedirs("cache/sets/own")
        assert shutil.disk_usage("cache/sets/own").free > 0 and os.access("cache/sets", os.W_OK)
        assert os.lstat("cache/sets").st_mode == os.stat("cache/sets").st_mode
        """,
    "a checkpoint made aside and renamed": """
        os.makedirs("out/tmp-checkpoint-1")
        Path("out/tmp-checkpoint-1/state").write_text("1"); Path("out/tmp-checkpoint-1/log").write_text("one")
        os.rename("out/tmp-checkpoint-1", "out/checkpoint-1")
        assert os.listdir("out") == ["checkpoint-1"] and sorted(os.listdir("out/checkpoint-1")) == ["log", "state"]
        assert Path("out/checkpoint-1/state").read_text() == "1" and not os.path.exists("out/tmp-checkpoint-1")
        """,
    "a file aside, and put in its place": """
        Path("state.tmp").write_text("new"); os.replace("state.tmp", "kept.txt")
        assert Path("kept.txt").read_text() == "new" and not os.path.exists("state.tmp")
        """,
    "the best copied, the oldest deleted": """
        os.mkdir("runs")
        for step in range(3):
            Path(f"runs/{step}.pt").write_text(str(step))
        shutil.copy("runs/2.pt", "runs/best.pt"); shutil.copyfile("kept.txt", "copy.txt")
        shutil.copy("copy.txt", "runs")
        os.remove("runs/0.pt"); Path("runs/1.pt").unlink()
        assert sorted(os.listdir("runs")) == ["2.pt", "best.pt", "copy.txt"]
        assert Path("runs/best.pt").read_text() == "2" and Path("runs/copy.txt").read_text() == "kept"
        """,
    "files of others copied, as one's code beside its results": """
        os.makedirs("runs/toy"); shutil.copy(os.__file__, "runs/toy"); shutil.copy2(os.__file__, "runs/toy/mine.py")
        assert sorted(os.listdir("runs/toy")) == ["mine.py", "os.py"]
        assert Path("runs/toy/mine.py").read_text() == Path(os.__file__).read_text()
        """,
    "a folder made anew": """
        for _ in range(2):
            if os.path.exists("samples"):
                shutil.rmtree("samples")
            os.makedirs("samples/a")
            assert os.listdir("samples") == ["a"] and not os.listdir("samples/a")
            Path("samples/a/x").write_text("x")
        shutil.move("samples/a/x", "samples"); shutil.copytree("samples", "samples2")
        assert sorted(os.listdir("samples2")) == ["a", "x"] and os.listdir("samples2/a") == []
        """,
    "gone into": """
        os.makedirs("work/deep"); os.chdir("work"); Path("x").write_text("x"); os.mkdir("y")
        assert sorted(os.listdir(".")) == ["deep", "x", "y"]
        with tempfile.TemporaryDirectory(dir=".") as own:
            Path(own, "z").write_text("z")
        assert sorted(os.listdir()) == ["deep", "x", "y"]
        """,
    "what is not there": """
        for missing in (lambda: os.listdir("never"), lambda: os.mkdir("never/below"), lambda: os.stat("never/x")):
            try:
                missing()
            except FileNotFoundError:
                continue
            raise AssertionError(missing)
        """,
}


@pytest.mark.parametrize("cell", CELLS)
def test_it_is_there_for_the_cell_alone(cell: str, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")

    body = textwrap.dedent(CELLS[cell])
    trace = traced(SETUP.format(here=str(tmp_path)) + body + END, dict)

    assert (trace.status, trace.error) == ("completed", "")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "kept"


def test_what_compiled_code_writes_is_left_out_and_the_rest_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tokenizers saves a vocabulary, in a function of the notebook's."""
    monkeypatch.chdir(tmp_path)
    trace = traced(
        """
        import numpy, safetensors.numpy, torch
        def prepare():
            made = {"words": numpy.zeros(3)}
            safetensors.numpy.save_file(
                made, "words.safetensors"
            )
            return made
        prepare()
        safetensors.numpy.save_file(prepare(), "more.safetensors")
        x = torch.ones(1000, device="cuda")
        """
    )

    assert (trace.status, trace.error) == ("completed", "") and len(trace.blocks) == 1
    assert "line 5 left out: it writes a file, or asks a server" in " ".join(trace.notes)
    assert not [*tmp_path.iterdir()]
