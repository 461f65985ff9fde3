"""What an installation brings: one version, the panel once, the server extension enabled, and light imports."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import jupyter_gpufit
from tests.kernels import environment

ROOT = Path(__file__).parent.parent
PANEL = ROOT / "jupyter_gpufit" / "_labextension"
SHARE = "data/share/jupyter/labextensions/jupyter-gpufit"
LARGEST_PANEL = 205_000  # bytes of JavaScript, uPlot's 50,000 among them, which wait until a run's page is opened


def test_the_package_and_the_panel_have_one_version() -> None:
    package = json.loads((ROOT / "labextension" / "package.json").read_text())
    lock = json.loads((ROOT / "labextension" / "package-lock.json").read_text())

    assert jupyter_gpufit.__version__ == package["version"] == lock["version"]


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "labextension" / "package-lock.json").read_text()


def test_importing_the_package_imports_no_front_and_no_torch() -> None:
    heavy = "torch", "IPython", "ipywidgets", "jupyter_server", "jupyterlab", "tornado"
    code = f"import sys, jupyter_gpufit; print([name for name in {heavy} if name in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT) == "[]\n"


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as where it is not installed
import jupyter_gpufit.hub.culler, jupyter_gpufit.hub.service
import jupyter_gpufit.server.events, jupyter_gpufit.server.handlers
from jupyter_gpufit.terminal import cli
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_gpufit")
shell.run_cell("%%gpufit train\\nprint(1)")
sys.argv[1:] = ["status"]
cli.main()
"""


@pytest.mark.slow
def test_all_but_a_training_goes_without_torch(tmp_path: Path) -> None:
    """A server, a terminal, a hub, and a notebook that says what it lacks; nothing asks pip for torch."""
    env = environment(tmp_path)
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], text=True, cwd=ROOT, env=env, stdout=subprocess.PIPE)

    assert ran.returncode == 0 and "CPU slot 0" in ran.stdout, ran.stdout
    assert "has no torch" in ran.stdout and "jupyter_gpufit[torch]" in ran.stdout
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(one.startswith("torch") for one in needed["dependencies"])
    assert needed["optional-dependencies"]["torch"] == ["torch>=2.6"]


@pytest.mark.slow
def test_the_package_runs_as_the_command() -> None:
    said = subprocess.check_output([sys.executable, "-m", "jupyter_gpufit", "--version"], text=True, cwd=ROOT)

    assert said == f"{jupyter_gpufit.__version__}\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist of this checkout, with the panel as it was last built."""
    if not (PANEL / "package.json").exists():
        pytest.skip("the panel is not built: cd labextension && npm ci && npm run build")
    target = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(target)], cwd=ROOT, check=True)
    return target


@pytest.mark.slow
def test_the_wheel_brings_the_panel_once(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        scripts = [info for info in wheel.infolist() if info.filename.endswith(".js")]
        names = wheel.namelist()

    assert scripts
    assert all(f"/{SHARE}/static/" in info.filename for info in scripts)
    assert sum(info.file_size for info in scripts) < LARGEST_PANEL
    assert any(name.endswith(f"{SHARE}/install.json") for name in names)


@pytest.mark.slow
def test_the_wheel_enables_the_server_extension(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (name,) = [name for name in wheel.namelist() if "jupyter_server_config.d" in name]
        config = json.loads(wheel.read(name))

    assert config == {"ServerApp": {"jpserver_extensions": {"jupyter_gpufit": True}}}


@pytest.mark.slow
def test_the_sdist_brings_the_built_panel(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()

    assert any("jupyter_gpufit/_labextension/static/remoteEntry" in name for name in names)
    assert not any("node_modules" in name for name in names)
