"""What cannot be deployed is refused in a sentence, and leaves no job."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from onnx import helper

from jupyter_gpufit.actions import commands
from jupyter_gpufit.actions.deploy import deploy
from jupyter_gpufit.errors import GpufitError
from jupyter_gpufit.jobs.store import all_jobs
from jupyter_gpufit.settings import Settings
from tests.models.zoo import affine, save

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("junk.onnx",), "junk.onnx cannot be deployed: it is not an ONNX file"),
        (("none.onnx",), "it cannot be read: No such file or directory"),
        (("model",), "A torch module is deployed from its notebook: net = %gpufit deploy model --example x"),
        (("fine.onnx", "--memory", "3GiB"), "3.0 GiB"),
        (
            ("long.onnx", "--dim", "length=100000000"),
            "asks for 13.2 GiB and the largest device here, cpu:0, offers 2",
        ),
        (("fine.onnx", "--dim", "depth=3"), "The model has no dimension 'depth'; its named ones: batch"),
        (("fine.onnx", "--dim", "depth"), "write length=512"),
        (("fine.onnx", "--rows", "0"), "'0' is not a number from 1"),
        (("fine.onnx", "--deadline", "soon"), "write 50ms or 2s"),
        (("fine.onnx", "sub/fine.onnx"), "would both be called fine. Rename one file."),
        (
            ("fine.onnx", "other.onnx", "--memory", "2MiB"),
            "--memory 2.0 MiB is too little for the largest of them. It takes 40 B",
        ),
    ],
    ids=range(11),
)
def test_what_cannot_be_deployed_leaves_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("junk.onnx").write_bytes(b"junk" * 1000)
    Path("sub").mkdir()
    for path in ("fine.onnx", "other.onnx", "sub/fine.onnx"):
        affine(Path(path))
    any_length = ["batch", "length"]
    save(Path("long.onnx"), [helper.make_node("Relu", ["x"], ["y"])], [("x", any_length)], [("y", any_length)])
    here = Settings(devices="cpu:2GiB", data=f"{tmp_path}/data", lab=f"{tmp_path}/lab", runtime=f"{tmp_path}/run")

    async def deploying() -> None:
        async for _ in deploy(here, commands.parse(["deploy", *arguments])):
            pass

    with pytest.raises(GpufitError) as found:
        anyio.run(deploying)
    assert why in str(found.value)
    assert not all_jobs(here)
