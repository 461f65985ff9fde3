"""Programs as notebooks have them: a text cut by `# %%` lines, or a notebook; one cell of it trains."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

TRAIN = "train"  # the tag of the cell that goes under the magic
_CUT = re.compile(r"^# %%(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """The cells of one program, in their order."""

    name: str
    before: tuple[str, ...]
    train: str
    after: tuple[str, ...]
    needs: tuple[str, ...] = ()  # modules without which it is not tried: a line "# needs: a, b" in its first cell


def read(path: Path) -> Program:
    """The program of a file; ValueError where no cell, or more than one, is tagged as the training."""
    cells = _of_notebook(path) if path.suffix == ".ipynb" else _of_text(path.read_text())
    at = [number for number, (tags, _) in enumerate(cells) if TRAIN in tags]
    if len(at) != 1:
        raise ValueError(f"{path}: {len(at)} cells are tagged `# %% train`, and it must be one")
    sources = [source for _, source in cells]
    first = re.search(r"^# needs: (.*)$", "\n".join(sources), re.MULTILINE)
    needs = tuple(word.strip() for word in first[1].split(",")) if first else ()
    return Program(path.stem, tuple(sources[: at[0]]), sources[at[0]], tuple(sources[at[0] + 1 :]), needs)


def read_all(folder: Path) -> list[Program]:
    """Every program below a folder, by name."""
    paths = sorted([*folder.rglob("*.py"), *folder.rglob("*.ipynb")])
    return [read(path) for path in paths if ".ipynb_checkpoints" not in path.parts and path.name != "__init__.py"]


def _of_text(text: str) -> list[tuple[list[str], str]]:
    parts = _CUT.split(text)
    cells: list[tuple[list[str], str]] = [([], parts[0])]
    cells += [(tags.split(), source) for tags, source in zip(parts[1::2], parts[2::2], strict=True)]
    return [(tags, source.strip("\n") + "\n") for tags, source in cells if source.strip()]


def _of_notebook(path: Path) -> list[tuple[list[str], str]]:
    cells = json.loads(path.read_text())["cells"]
    return [
        (cell.get("metadata", {}).get("tags", []), "".join(cell["source"]))
        for cell in cells
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip()
    ]
