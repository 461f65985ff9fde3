"""What libraries and cells put into the tables of pandas is there in the worker, after a resume, and comes back."""

from __future__ import annotations

import collections
import importlib
from pathlib import Path

import pytest

from jupyter_gpufit.surroundings.added_names import methods
from tests.command_line import gpufit
from tests.kernels import Kernel

pytestmark = pytest.mark.slow


def test_methods_of_tables_go_there_through_a_resume_and_back(
    kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None
) -> None:
    kernel.check("import os, time, pandas as pd\nfrom tqdm import tqdm\ntqdm.pandas(desc='rows', disable=True)")
    kernel.check(
        "table = pd.DataFrame({'a': [1, 2]})\n"
        "@pd.api.extensions.register_dataframe_accessor('size')\n"
        "class Size:\n    def __init__(self, table): self.table = table\n    def rows(self): return len(self.table)\n"
    )
    sent = kernel.send(
        "%%gpufit train --name rows\n"
        "first = table.a.progress_apply(lambda x: x + 1).tolist(), table.size.rows()\n"
        "pd.Series.doubled = lambda self: self * 2\n"
        "for i in range(3):\n"
        "    print('turn', i)\n"
        f"    while i == 1 and not os.path.exists({str(hold)!r}): time.sleep(0.01)\n"
        "then = table.groupby('a').progress_apply(len).tolist(), table.size.rows(), table.a.doubled().tolist()\n"
    )
    kernel.until(sent, "turn 1")
    assert gpufit(env, "release", "rows").returncode == 0
    kernel.finish(sent)
    hold.touch()

    kernel.check("%gpufit resume rows")

    kernel.check("assert first == ([2, 3], 2), first\nassert then == ([1, 1], 2, [2, 4]), then")
    kernel.check("assert table.a.doubled().tolist() == [2, 4]")
    kernel.check("assert table.size.rows() == 2 and type(table.size) is Size")


def test_what_python_gives_a_class_of_theirs_was_added_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """`__replace__` of `pandas.NamedAgg`, of `dataclasses` from Python 3.13 on, went into each checkpoint."""
    pandas = importlib.import_module("pandas")
    monkeypatch.setattr(pandas, "Pair", collections.namedtuple("Pair", "one two"), raising=False)

    assert not [(place, name) for place, name, _ in methods() if place[1] in (((".", "Pair"),), ((".", "NamedAgg"),))]
