"""A module of a notebook deployed from it, called, and called again after the kernel has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import kill_workers
from tests.kernels import Kernel, environment, running_kernel

pytest.importorskip("onnxscript", reason="deploying from a notebook is NOT TESTED: pip install -e '.[onnx]'")
pytestmark = pytest.mark.slow

SETUP = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).to("cuda")
x = torch.randn(1, 4, device="cuda")
with torch.no_grad():
    wanted = model.eval()(x)
model.train()
from safetensors.torch import save_file
save_file({name: tensor.cpu() for name, tensor in model.state_dict().items()}, "best.safetensors")
torch.nn.init.zeros_(model[0].weight)
"""


@pytest.fixture
def home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("deployer")
    yield home
    kill_workers(home)


def test_a_module_is_deployed_called_moved_and_found_again_after_a_restart(home_of_its_own: Path) -> None:
    home = home_of_its_own
    with running_kernel(environment(home), home) as kernel:
        kernel.check(SETUP)
        deployed = kernel.check("net = %gpufit deploy model --example x --weights best.safetensors")
        assert "for batches of any size. On the example it differs from the module by" in deployed.shown
        assert "model-1: input: float32 [batch, 4]" in deployed.shown and "model-1 answers on cpu:0." in deployed.shown
        kernel.check("y = net(x)\nassert torch.allclose(y, wanted, atol=1e-5), (y, wanted)")
        kernel.check("assert not model[0].weight.any()  # the notebook's own stays what it is")
        kernel.check("assert y.device == x.device and model.training and net(torch.randn(9, 4)).shape == (9, 2)")
        assert "running on cpu:0" in str(kernel.check("net").result)
        assert "model-1 runs on cpu:1." in kernel.check("%gpufit move model-1").shown
        kernel.check("assert torch.allclose(net(x), wanted, atol=1e-5)")
        wrong(kernel)
        kernel.restart()
        kernel.check("import numpy as np\nnet = %gpufit attach model-1")
        kernel.check("assert net(np.zeros((3, 4), 'f4')).shape == (3, 2)")
        assert "model-1 is released after" in kernel.check("%gpufit release model-1").shown
        assert kernel.run("net(np.zeros((1, 4), 'f4'))").ename == "NotServing"
        assert "model-1 answers on" in kernel.check("%gpufit resume model-1").shown
        kernel.check("assert net(np.zeros((1, 4), 'f4')).shape == (1, 2)")


def wrong(kernel: Kernel) -> None:
    """What is refused, in a sentence and without a traceback of ours."""
    for line, why in (
        ("net = %gpufit deploy model", "say what it is called with: net = %gpufit deploy model --example x"),
        ("net2 = %gpufit deploy model --example xx", "There is no variable 'xx'. Did you mean x?"),
        ("net2 = %gpufit deploy best.safetensors", "weights without a module; to put them onto one"),
        ("%gpufit deploy nothing", "There is no file 'nothing'"),
        ("%gpufit deploy x --example x", "x cannot be made an ONNX model: it is a Tensor, not a torch.nn.Module"),
    ):
        refused = kernel.run(line)
        assert why in refused.evalue, refused
    assert not kernel.run("net(x.double())").ok
