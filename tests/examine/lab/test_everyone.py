"""What `gpufit lab init --hub` writes for all users' kernels, and `gpufit lab uninstall` takes back."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from traitlets.config.loader import PyFileConfigLoader

from jupyter_gpufit.errors import CannotUninstall
from jupyter_gpufit.examine.lab import everyone
from jupyter_gpufit.examine.lab.init import Site, init
from jupyter_gpufit.examine.lab.uninstall import uninstall
from jupyter_gpufit.examine.lab.upgrade import upgrade
from jupyter_gpufit.lab import Request
from jupyter_gpufit.lab.published import publish

THEIRS = "c = get_config()\nc.IPKernelApp.matplotlib = 'inline'"  # as an administrator left it, without a last newline


def extensions(path: Path) -> list[str]:
    config = PyFileConfigLoader(path.name, str(path.parent)).load_config()
    found: list[str] = config.InteractiveShellApp.extensions.get_value([])
    return found


@pytest.mark.parametrize("before", ["", THEIRS, everyone.BLOCK.replace("jupyter_gpufit", "an_older_one")])
def test_every_kernel_loads_the_magics_and_what_was_there_stays(tmp_path: Path, before: str) -> None:
    path = everyone.autoload(tmp_path).path
    path.parent.mkdir(parents=True)
    path.write_text(before)

    assert "would be written" in "".join(everyone.enable(tmp_path, dry_run=True))
    assert path.read_text() == before
    list(everyone.enable(tmp_path, dry_run=False))
    assert extensions(path) == ["jupyter_gpufit"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert (THEIRS in path.read_text()) == (before == THEIRS)
    after = path.read_text()
    list(everyone.enable(tmp_path, dry_run=False))
    assert path.read_text() == after, "once is enough"

    list(everyone.disable(tmp_path, dry_run=True))
    assert path.read_text() == after
    list(everyone.disable(tmp_path, dry_run=False))
    assert path.read_text().strip() == THEIRS if before == THEIRS else not path.exists()


WAITS = """
import sys
sys.path += {path!r}
from pathlib import Path
from jupyter_gpufit.lab import Request
from jupyter_gpufit.lab.published import publish
held = publish(Path({lab!r}), Request(job_id="a", name={name!r}))
print("waits", flush=True)
input()
"""


@contextmanager
def waits(python: str | Path, made: Site, name: str) -> Iterator[None]:
    """A job of this environment that waits in the lab."""
    code = WAITS.format(path=sys.path, lab=str(made.directory), name=name)
    with subprocess.Popen([python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"waits\n"
        yield
        process.communicate()


def test_upgrade_says_who_runs_with_what_and_makes_the_lab_as_this_version_wants_it(made: Site, tmp_path: Path) -> None:
    old = tmp_path / "gpufit-0.1"
    venv.create(old, symlinks=True)
    list(everyone.enable(made.root, dry_run=False))
    block = everyone.autoload(made.root).path
    block.write_text(block.read_text().replace("else:", "else :"))  # of another version
    before = sorted(path.read_bytes() for path in made.root.rglob("*") if path.is_file())

    with waits(sys.executable, made, "bert"), waits(old / "bin" / "python", made, "gnn"):
        dry = "\n".join(upgrade(made, dry_run=True))
    assert "From this environment: root's bert (waits). Change nothing in it by pip until" in dry
    assert f"From {old}: root's gnn (waits). They keep their code to their end" in dry and f"Remove {old} when" in dry
    assert f"would be written: {block}" in dry and "Nothing was changed." in dry
    assert set(before) <= {path.read_bytes() for path in made.root.rglob("*") if path.is_file()}

    said = "\n".join(upgrade(made))
    assert "Nobody holds a device or waits." in said and f"written: {block}" in said
    assert everyone.BLOCK in block.read_text()


def test_uninstall_takes_back_what_init_made_and_names_the_rest(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: gpufit lab uninstall. Run the tests as root, in a container, to test it.")
    root = Path("/dev/shm") / tmp_path.name
    root.mkdir()
    here = Site(Path("/run/gpufit"), root)
    try:
        (root / "run").mkdir()
        (root / "etc" / "gpufit").mkdir(parents=True)
        (root / "etc" / "gpufit" / "policy.toml").write_text("half_life = 7\n")
        list(init(here, hub=True))
        made = sorted(map(str, root.rglob("*")))

        assert "Nothing was changed." in list(uninstall(here, dry_run=True))
        assert sorted(map(str, root.rglob("*"))) == made
        kept = publish(here.directory, Request(job_id="abcdef", name="bert", needed=1))
        with pytest.raises(CannotUninstall, match="jobs of root"):
            list(uninstall(here))
        assert sorted(set(map(str, root.rglob("*"))) - {str(kept.path)}) == made
        kept.drop()

        said = "\n".join(uninstall(here))
        assert f"left: {root}/etc/gpufit" in said
        left = [path for path in root.rglob("*") if path.is_file() or path.is_symlink()]
        assert left == [root / "etc" / "gpufit" / "policy.toml"]
        assert not here.directory.exists()
    finally:
        subprocess.run(["rm", "-rf", str(root)], check=True)
