"""`cuda` in a notebook's own process: real kernels, setup in earlier cells, as notebooks have it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.units import GiB
from tests.fake_nvml import FakeNvml, Gpu, Holder
from tests.kernels import Kernel, environment, running_kernel
from tests.libraries import need

pytestmark = pytest.mark.slow
pytest_plugins = ["tests.fake_nvml.fixtures"]

SETUP = """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).to(device)
tied = nn.Linear(4, 4, bias=False).to(device); tied.also = tied.weight
optimizer = torch.optim.AdamW([*model.parameters(), *tied.parameters()])
X, Y = torch.randn(256, 8), torch.randint(4, (256,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=32, shuffle=True)
weight, row = model[0].weight, model[0].weight.detach()[0]
W = (torch.randn(4, 4, device=device) * 0.1).requires_grad_()
losses = []
"""
TRAIN = """
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.cross_entropy(tied(model(x)) @ W, y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
last, hits = x, (model(x).argmax(1) == y).float()
"""
WHERE = "print(*[str(t.device) for t in (model[0].weight, model[1].running_mean, W, X, last, hits, W.grad)])"
DIGEST = (
    "import hashlib\n"
    "kept = [*model.state_dict().values(), *tied.parameters(), W, last, hits, torch.get_rng_state()]\n"
    "kept += [v for s in optimizer.state.values() for v in s.values()]\n"
    "print(losses, hashlib.sha1(b''.join(t.detach().cpu().numpy().tobytes() for t in kept)).hexdigest())"
)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel of its own."""
    with running_kernel(environment(tmp_path, GPUFIT_ESTIMATE_LIMIT="0"), tmp_path) as kernel:
        yield kernel


def test_a_loss_that_comes_back_is_nothing_that_the_notebook_computed(fresh: Kernel) -> None:
    fresh.check("import torch\nmodel = torch.nn.Linear(2, 2).to('cuda')")

    ran = fresh.check("%%gpufit train\nloss = model(torch.ones(2, 2).to('cuda')).sum()\nloss.backward()\n")

    assert "computed on the CPU" not in ran.shown
    assert "computed on the CPU" in fresh.check("loss = model(torch.ones(2, 2).to('cuda')).sum()").shown


def test_an_ordinary_notebook_trains_to_the_bits_of_a_plain_one(fresh: Kernel) -> None:
    fresh.check(SETUP)
    fresh.check("%%gpufit train" + TRAIN)
    ours = fresh.check(DIGEST).stdout
    where = fresh.check(WHERE).stdout
    fresh.check("%%gpufit train" + TRAIN)
    again = fresh.check(DIGEST).stdout

    fresh.check("%reset -f")
    fresh.check("%unload_ext jupyter_gpufit")
    fresh.check(SETUP + "\nassert device == 'cpu'\n")
    fresh.check(TRAIN)
    assert fresh.check(DIGEST).stdout == ours
    fresh.check(TRAIN)
    assert fresh.check(DIGEST).stdout == again
    assert where.split() == ["cuda:0", "cuda:0", "cuda:0", "cpu", "cuda:0", "cuda:0", "cuda:0"]


def test_what_is_trained_is_the_notebooks_own_and_can_be_used_in_the_next_cell(kernel: Kernel) -> None:
    kernel.check(SETUP)
    kernel.check("%%gpufit train" + TRAIN)

    shown = kernel.check(
        "assert model[0].weight is weight and tied.also is tied.weight\n"
        "assert torch.equal(row, weight.detach()[0]) and row.device == weight.device\n"
        "state = optimizer.state[weight]\n"
        "assert state['exp_avg'].is_cuda and not state['step'].is_cuda\n"
        "print(model(X.to(device)).device, next(model.parameters()).device, model(X[:2].cuda()).cpu().device)\n"
    ).stdout

    assert shown.split() == ["cuda:0", "cuda:0", "cpu"]


def test_torch_may_be_imported_first(tmp_path: Path) -> None:
    with running_kernel(environment(tmp_path), tmp_path, load=False, cold=True) as kernel:
        kernel.check("import torch; from torch.cuda import is_available")
        kernel.check("%load_ext jupyter_gpufit")
        shown = kernel.check("print(torch.cuda.is_available(), torch.ones(2, device='cuda').device)").stdout

    assert shown.split() == ["True", "cuda:0"]


def test_loading_imports_no_torch(fresh: Kernel) -> None:
    assert fresh.check("import sys; print('torch' in sys.modules)").stdout == "False\n"


def test_it_answers_as_the_slot_and_says_once_that_it_computes_on_the_cpu(fresh: Kernel) -> None:
    fresh.check("import torch")

    shown = fresh.check(
        "print(torch.cuda.device_count(), torch.cuda.get_device_name(0), torch.cuda.mem_get_info()[1] >> 20)\n"
        "print(torch.cuda.get_device_properties(0).total_memory >> 20, torch.cuda.is_bf16_supported())\n"
        "print(torch.cuda.memory_allocated()); kept = torch.zeros(1 << 20, device='cuda')\n"
        "print(torch.cuda.memory_allocated() >> 20, torch.cuda.mem_get_info()[0] >> 20)"
    )
    said = [fresh.check("y = kept + 1; z = y * 2").shown for _ in range(2)]

    assert shown.stdout.split("\n") == ["1 CPU slot cpu:0 2048", "2048 True", "0", "4 2044", ""]
    assert said[0].endswith("own process. To use a CPU slot, put %%gpufit train on top of it.") and not said[1]
    assert "is a stand-in" in fresh.check("%gpufit kernel").shown


def test_what_an_earlier_cell_made_for_cuda_goes_along(kernel: Kernel) -> None:
    kernel.check(
        "import torch\n"
        "context = torch.amp.autocast(device_type='cuda', dtype=torch.bfloat16)\n"
        "scaler = torch.amp.GradScaler('cuda')\n"
        "generator = torch.Generator(device='cuda'); generator.manual_seed(5)\n"
        "side = torch.cuda.Stream(); begun = torch.cuda.Event(enable_timing=True)\n"
        "a = torch.ones(4, 4, device='cuda'); plain = torch.Generator().manual_seed(5)\n"
        "first = torch.randn(3, generator=plain)\n"
    )
    kernel.check(
        "%%gpufit train\n"
        "with context:\n"
        "    low = a @ a\n"
        "assert low.dtype == torch.bfloat16 and generator.device.type == 'cuda'\n"
        "drawn = torch.randn(3, generator=generator, device='cuda')\n"
        "scaled = scaler.scale(a.sum())\n"
        "with torch.cuda.stream(side):\n"
        "    begun.record(); side.synchronize()\n"
    )
    kernel.check(
        "with context:\n"
        "    assert (a @ a).dtype == low.dtype == torch.bfloat16 and low.is_cuda\n"
        "assert (a @ a).dtype == torch.float32\n"
        "assert torch.equal(drawn.cpu(), first) and drawn.is_cuda and generator.device == torch.device('cuda', 0)\n"
        "assert torch.equal(torch.randn(3, generator=generator, device='cuda'), torch.randn(3, generator=plain))\n"
        "assert scaled.item() == 16 * 65536 and scaler._scale.is_cuda\n"
    )


def test_a_default_device_of_an_earlier_cell_holds(fresh: Kernel) -> None:
    fresh.check("import torch; torch.set_default_device('cuda'); net = torch.nn.Linear(2, 2); before = torch.ones(2)")
    fresh.check(
        "%%gpufit train\nmade = torch.zeros(2); out = net(made + before).detach(); cells = torch.nn.Linear(2, 2)"
    )

    shown = fresh.check("print(*[t.device for t in (net.weight, before, made, out, cells.weight, torch.ones(1))])")
    fresh.check("torch.set_default_device(None)\nassert torch.ones(1).device.type == 'cpu'")

    assert shown.stdout.split() == ["cuda:0"] * 6
    fresh.check("%%gpufit train\nmade = torch.zeros(2)")
    assert fresh.check("print(made.device)").stdout == "cpu\n"


def test_what_the_cell_moves_stays_apart_from_what_was_there(kernel: Kernel) -> None:
    kernel.check(
        "import torch; net = torch.nn.Linear(2, 2); w = net.weight; array = w.detach().numpy(); was = array.copy()"
    )
    kernel.check(
        "%%gpufit train\nnet.to('cuda')\nwith torch.no_grad():\n    net.weight.zero_()\nnet.host = net.weight.cpu()"
    )
    kernel.check(
        "assert net.weight is w and w.device.type == 'cuda' and not w.any() and (array == was).all()\n"
        "assert net.host.device.type == 'cpu'\n"
    )
    kernel.check("%%gpufit train\nnet.cpu()")
    assert kernel.check("print(w.device, net.weight.device)").stdout.split() == ["cpu", "cpu"]


def test_it_begins_anew_with_the_extension(fresh: Kernel) -> None:
    fresh.check("import torch; kept = torch.ones(2, device='cuda')")
    fresh.check("%reload_ext jupyter_gpufit")

    shown = fresh.check(
        "print(kept.device, (kept * 2).device, torch.ones(2, device='cuda').device, torch.ones(1).device)"
    )
    assert shown.stdout.split() == ["cuda:0", "cuda:0", "cuda:0", "cpu"]
    assert "cuda:0" in fresh.check("%%gpufit train\nprint(kept.device)").stdout


def test_an_import_of_torch_goes_on_where_the_stand_in_cannot(fresh: Kernel) -> None:
    fresh.check("import sys; sys.modules['jupyter_gpufit.cuda.slot.mode'] = None")

    ran = fresh.check("import torch; print(torch.ones(1).device)")

    assert ran.stdout == "cpu\n" and "cuda in this kernel is torch's own" in ran.shown


def test_other_libraries_and_programs_see_no_gpu(fresh: Kernel) -> None:
    assert fresh.check("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))").stdout == "''\n"
    fresh.check("open('train.py', 'w').write('import os; print([os.environ[\"CUDA_VISIBLE_DEVICES\"]])')")

    ran = fresh.check("!python train.py")

    assert "['']" in ran.stdout and "!gpufit run -- python train.py" in ran.shown
    assert "gpufit run" not in fresh.check("!python train.py").shown


@pytest.mark.parametrize(
    "starts",
    [
        "os.system('python train.py')",
        "subprocess.run(['python', 'train.py'], check=True)",
        "def go():\n    subprocess.Popen('python train.py', shell=True).wait()\ngo()",
    ],
)
def test_what_a_cell_starts_without_its_shell_is_told_too(fresh: Kernel, tmp_path: Path, starts: str) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    fresh.check("import os, subprocess")
    assert "gpufit run" not in fresh.check("subprocess.run(['python', '-c', 'pass']); os.system('echo x')").shown

    assert "!gpufit run -- python train.py" in fresh.check(starts).shown

    assert (tmp_path / "ran").exists()
    assert "gpufit run" not in fresh.check(starts).shown


def test_what_a_library_starts_is_no_matter_of_the_cells(fresh: Kernel, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    (tmp_path / "library.py").write_text("import os\ndef go(): os.system('python train.py')")

    assert "gpufit run" not in fresh.check("import library; library.go()").shown
    assert (tmp_path / "ran").exists()


@pytest.mark.slow(19)
def test_what_another_library_holds_of_a_gpu_already_is_said(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-x", "c", "-o", driver, "-"], input=b"int cuInit;", check=True)
    env = environment(tmp_path, **{name: value for name, value in fake_nvml.env.items() if name not in os.environ})
    del env["GPUFIT_DEVICES"]
    with running_kernel(env, tmp_path, load=False) as kernel:
        pid = int(kernel.check("import os; print(os.getpid())").stdout)
        fake_nvml.show(Gpu(processes=(Holder(pid=pid, bytes=3 * GiB),)))
        assert "holds" not in kernel.check("%load_ext jupyter_gpufit").shown  # it is only named alike: no CUDA is here
        kernel.check(f"%unload_ext jupyter_gpufit\nimport ctypes; ctypes.CDLL({str(driver)!r})")

        said = kernel.check("%load_ext jupyter_gpufit").shown
        words = kernel.check("%gpufit kernel").shown

    assert "it holds 3.0 GiB there" in said and "other than torch" in said and "restart the kernel" in said
    assert "it holds 3.0 GiB there" in words


def test_a_shells_cell_is_told_how_to_run_its_program(fresh: Kernel) -> None:
    fresh.check("open('train.py', 'w').write('import os; print([os.environ[\"CUDA_VISIBLE_DEVICES\"]])')")

    ran = fresh.check("%%bash --no-raise-error\ncd .\npython train.py --epochs 3\necho $?")

    assert ran.stdout == "['']\n0\n" and "!gpufit run -- python train.py --epochs 3" in ran.shown
    assert "gpufit run" not in fresh.check("%%sh\npython train.py").shown


def test_commands_have_the_values_of_the_cells_and_functions_variables(fresh: Kernel, tmp_path: Path) -> None:
    fresh.check(
        "import sys\ndef show(x):\n    !echo {x} $x\n    !echo '{{x}}' $HOME\n    y = !echo got {x}\n    print(y)"
    )
    assert fresh.check("show(7)").stdout.split() == ["7", "7", "{{x}}", str(tmp_path), "['got", "7']"]

    ran = fresh.check("lines = !{sys.executable} -c 'print({3 + 4})'\nprint(lines)\nlines = !{sys.executable} no.py")

    assert ran.stdout == "['7']\n" and "!gpufit run -- " in ran.shown and "python no.py" in ran.shown.replace("3.1", "")


def test_it_is_torchs_own_where_the_setting_says_so(tmp_path: Path) -> None:
    with running_kernel(environment(tmp_path, GPUFIT_KERNEL_CUDA="real"), tmp_path) as kernel:
        shown = kernel.check("import torch, os; print(torch.cuda.is_available(), 'CUDA_VISIBLE_DEVICES' in os.environ)")
        said = kernel.check("%gpufit kernel").shown

    assert shown.stdout.split() == ["False", "False"] and "kernel_cuda" in said


def test_what_it_does_ends_with_the_extension(fresh: Kernel) -> None:
    fresh.check("import torch, os; real = torch.nn.Module")
    fresh.check("%unload_ext jupyter_gpufit")

    shown = fresh.check("print(torch.cuda.is_available(), torch.ones(2).device, 'CUDA_VISIBLE_DEVICES' in os.environ)")

    assert shown.stdout.split() == ["False", "cpu", "False"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        pytest.param("import transformers", marks=pytest.mark.soak),  # which asks as the other does
        "import importlib.util; importlib.util.find_spec('torch')",
    ],
)
def test_who_asks_for_torch_before_it_is_imported_does_not_undo_it(tmp_path: Path, first: str) -> None:
    """Hugging Face's notebooks begin so, and Colab's."""
    if "transformers" in first:
        need("transformers")
    with running_kernel(environment(tmp_path), tmp_path, cold=True) as kernel:
        assert kernel.check(f"{first}\nimport torch\nprint(torch.cuda.is_available())").stdout == "True\n"
