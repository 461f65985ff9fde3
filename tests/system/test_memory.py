"""How much memory is left."""

from __future__ import annotations

from pathlib import Path

from jupyter_gpufit.system.memory import left_in_groups


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
