"""Tables that are read piece by piece: where each stood, its file is read on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.kinds import frame_readers

from .crossing import cross_here, notebook

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
TABLE = """
import gzip, io, os, pandas as pd
lines = "a,b\\n" + "".join(f"{n},word {n}\\n" for n in range(10))
with open("a.csv", "w") as file: file.write(lines)
with gzip.open("a.csv.gz", "wt") as file: file.write(lines)
if not os.path.exists("linked"): os.symlink("a.csv.gz", "linked")
del file
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "how",
    [
        "'a.csv', chunksize=3",
        "'a.csv', chunksize=3, engine='python'",
        "'a.csv', chunksize=3, encoding='latin1', nrows=8",
        "'a.csv', iterator=True",
        "'a.csv.gz', chunksize=3",
        "'linked', compression='gzip', chunksize=3",
        "'a.csv', chunksize=3, converters={'b': lambda text: text.upper()}",
    ],
)
def test_it_goes_on_there_and_then_here(how: str) -> None:
    whole = notebook(TABLE, f"reader = pd.read_csv({how})", "pieces = [reader.get_chunk(2) for _ in range(3)]")
    divided = notebook(TABLE, f"reader = pd.read_csv({how})", "first = reader.get_chunk(2)", "os.mkdir('sub')")

    cross_here(divided, "os.chdir('sub'); second = reader.get_chunk(2)")

    assert divided["second"].equals(whole["pieces"][1])
    assert divided["reader"].get_chunk(2).equals(whole["pieces"][2])


def test_one_that_is_closed_or_at_its_end_stays_so() -> None:
    namespace = notebook(
        TABLE,
        "done, closed, left = (pd.read_csv('a.csv', chunksize=4) for _ in range(3))",
        "_ = [*done]; closed.close()",
    )

    cross_here(namespace, "seen = [len(piece) for piece in left]; there = [*done], closed.chunksize")

    assert namespace["seen"] == [4, 4, 2] and namespace["there"] == ([], 4)
    assert [*namespace["done"]] == [*namespace["left"]] == []
    if int(pandas.__version__.partition(".")[0]) >= 3:
        with pytest.raises(ValueError, match="closed"):  # as pandas has it
            next(namespace["closed"])


def test_one_that_is_closed_is_not_read_where_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does before pandas 3, with the whole kernel."""
    monkeypatch.setattr(frame_readers, "_READ_ONCE_CLOSED_ENDS_ALL", True)
    namespace = notebook(TABLE, "closed = pd.read_csv('a.csv', chunksize=4); closed.close(); read = []")
    namespace["closed"].get_chunk = namespace["read"].append

    assert frame_readers.state_of(namespace["closed"]) == ("at its end", 0)
    assert namespace["read"] == []


@pytest.mark.parametrize(
    "cell, why",
    [
        ("held = pd.read_csv(io.StringIO(lines), chunksize=2)", "it was given a file that is open"),
        ("held = pd.read_csv('a.csv', chunksize=2); os.unlink('a.csv')", "does not exist any more"),
    ],
)
def test_what_cannot_be_opened_again_is_named_before_the_start(cell: str, why: str) -> None:
    with pytest.raises(CannotTravel, match=why):
        ship(["held"], notebook(TABLE, cell))
