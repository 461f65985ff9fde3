"""How much memory is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.system.memory import all_memory, left_in_groups, limits_of_groups, spare_at_last


def test_the_memory_a_container_allows_is_what_is_free(tmp_path: Path) -> None:
    job = tmp_path / "slurm" / "job_7"
    job.mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("0::/slurm/job_7\n")
    for place, limit in ((job, "max"), (job.parent, "1000")):
        (place / "memory.max").write_text(limit)
        (place / "memory.current").write_text("700")
        (place / "memory.stat").write_text("anon 5\ninactive_file 200\n")
    assert left_in_groups(tmp_path, own) == [500]
    assert left_in_groups(tmp_path, tmp_path / "none") == []
    assert limits_of_groups(tmp_path, own) == [1000]


def test_what_others_give_back_is_not_all_a_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    reserve, limit = round(all_memory() * 0.05), all_memory() // 4
    monkeypatch.setattr("jupyter_gpufit.system.memory.limits_of_groups", lambda: [limit])
    assert spare_at_last(1 << 60) == limit - reserve
    monkeypatch.setenv("GPUFIT_FIT_HOST", "1MiB")
    assert spare_at_last(1 << 60) == 1 << 20
