"""Which modules are the user's own, whose data belongs to a checkpoint and whose changes are told of."""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path
from types import ModuleType

import pytest

from jupyter_gpufit.snapshot import modules
from jupyter_gpufit.snapshot.own_files import is_own


def made(file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x = 1")
    return str(file)


@pytest.mark.parametrize("file", ["mine.py", "src/package/deep/mine.py", "venv-notes/mine.py"])
def test_what_lies_below_the_notebook_is_ones_own(tmp_path: Path, file: str) -> None:
    assert is_own(made(tmp_path / file), (str(tmp_path),))


def test_so_is_what_lies_elsewhere_and_is_not_installed(tmp_path: Path) -> None:
    assert is_own(made(tmp_path / "checkout" / "package" / "mine.py"), (str(tmp_path / "notebooks"),))
    assert not is_own(made(tmp_path / "shared" / "dist-packages" / "theirs.py"), (str(tmp_path / "notebooks"),))


def test_what_an_environment_below_the_notebook_has_is_not(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    [packages] = (tmp_path / "env").glob("lib/python*/site-packages")
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    for file in (
        packages / "torch/nn/modules.py",
        tmp_path / "env/src/cloned/theirs.py",  # pip install -e git+https://…
        tmp_path / "conda/lib/python3.12/json/decoder.py",  # the library of another Python
        tmp_path / "tools/node_modules/gyp/theirs.py",
        tmp_path / ".cache/modules/theirs.py",
    ):
        assert not is_own(made(file), (str(tmp_path),)), file


def test_nor_is_this_pythons_own_library_wherever_the_notebook_is() -> None:
    library = sysconfig.get_path("stdlib")
    assert not is_own(f"{library}/json/decoder.py", (str(Path(library).parents[1]),))
    assert not is_own(str(Path(modules.__file__)), (str(Path(modules.__file__).parents[2]),))


def test_a_notebook_inside_an_environment_has_modules_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    work = tmp_path / "site-packages" / "work"
    assert is_own(made(work / "mine.py"), (str(work),))


def test_only_ones_own_are_looked_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    for name, file in (("mine", "mine.py"), ("theirs", "env/src/theirs.py")):
        module = ModuleType(f"{name}_of_this_test")
        module.__file__ = made(tmp_path / file)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    found = {name for name, _ in modules.own_modules()}

    assert "mine_of_this_test" in found and "theirs_of_this_test" not in found
    assert "theirs_of_this_test" not in modules.stamps()


def test_nor_is_a_folder_into_which_pip_has_put_packages(tmp_path: Path) -> None:
    """`pip install --target libs`: beside each package stands what pip notes of it."""
    (tmp_path / "libs" / "theirs-1.0.dist-info").mkdir(parents=True)
    for homes in ((str(tmp_path),), (str(tmp_path / "notebooks"),)):
        assert not is_own(made(tmp_path / "libs" / "theirs" / "deep" / "code.py"), homes)
        assert is_own(made(tmp_path / "mine" / "code.py"), homes)
