"""Loops over iterators of compiled code, which show nobody where they are: each goes on behind what it had given."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from jupyter_gpufit.program.running.counted import Counted, MadeOtherwise, is_opaque

from .matrix import Matrix
from .matrix_cells import BEGIN, CELLS, Cell
from .training import Trainings

ROWS = """
import xml.etree.ElementTree as ET
tree = ET.fromstring("<net><conv/><relu/><norm/><linear/></net>")
def tags():
    for one in tree.iter():
        yield one.tag
found = []
for one in tree.iter():
    found.append((one.tag, torch.rand(1).item()))
    say(found[-1])
for number, one in enumerate(tree.iter("relu"), 1):
    say(number, one.tag)
for tag, other in zip(tags(), tree.iter()):
    say(tag, other.tag)
frame = pd.DataFrame({"name": list("abcd"), "size": range(4)})
for row in frame.itertuples(index=False):
    say(row.name, row.size, torch.rand(1))
for name, column in frame.items():
    say(name, column.tolist())
for number, piece in enumerate(pd.read_csv("TABLE", chunksize=2)):
    say(number, piece.index.tolist(), piece["size"].tolist(), torch.rand(1))
"""


@pytest.mark.slow(13)
def test_they_go_on_where_they_were(trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table := tmp_path / "table.csv").write_text("size\n" + "\n".join(map(str, range(7))))
    rows = ROWS.replace("TABLE", str(table))
    monkeypatch.setitem(CELLS, "rows", Cell(rows, before=BEGIN + "import pandas as pd", loads=("pandas",)))

    row = Matrix(trainings, tmp_path).row("rows", 5)

    assert not row.differences
    assert row.tried and row.tried + row.deferred == 5  # pandas' own loops are among the points


def test_what_gives_others_the_next_time_is_told() -> None:
    numbers = itertools.count()
    made = Counted(None, lambda: iter([next(numbers), 7]), (), {})
    made.go_on((*made._call, 1, 0))

    assert list(made) == [7]
    with pytest.raises(MadeOtherwise, match="gives other items"):
        made.go_on((*made._call, 1, 0))
    with pytest.raises(MadeOtherwise, match="gave 3 items, and gives 2 now"):
        made.go_on((*made._call, 3, 7))


def test_what_is_saved_otherwise_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    with open(tmp_path / "lines") as lines:
        others = [lines, iter([1]), iter({1: 2}.items()), iter({1, 2}), (x for x in "ab"), itertools.pairwise([1]), [1]]

        assert not any(map(is_opaque, others))
