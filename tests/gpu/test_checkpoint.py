"""A training on a GPU that is released and resumed: no context stays behind, and the result is the same to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kernels import TIMEOUT, environment, running_kernel

SET_UP = (
    "import os, time, torch\ntorch.manual_seed(7); torch.use_deterministic_algorithms(True)\n"
    "os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8'); losses = []\n"
)
CELL = (
    "net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Dropout(0.3), torch.nn.Linear(512, 1)).cuda()\n"
    "opt = torch.optim.AdamW(net.parameters(), lr=0.01); scaler = torch.amp.GradScaler('cuda')\n"
    "for step in range(20):\n"
    "    with torch.autocast('cuda', dtype=torch.float16):\n"
    "        loss = net(torch.randn(64, 256, device='cuda')).square().mean()\n"
    "    opt.zero_grad(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update()\n"
    "    losses.append(loss.item().hex()); print('step', step)\n"
    "    while step == 9 and not os.path.exists({hold!r}): time.sleep(0.02)\n"
)
DIGEST = (
    "import hashlib\nparts = b''.join(t.numpy().tobytes() for t in net.state_dict().values())\n"
    "print(hashlib.sha256(parts).hexdigest(), *losses)"
)
ON_GPUS = (
    "from jupyter_gpufit.devices.nvml import read_gpus\n"
    "print([process.pid for gpu in read_gpus() for process in gpu.processes], sum(gpu.used for gpu in read_gpus()))"
)


def said(*arguments: str, env: dict[str, str]) -> str:
    ran = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_released_no_context_stays_and_resumed_nothing_has_changed(tmp_path: Path) -> None:
    env = environment(tmp_path, GPUFIT_DEVICES="gpu", GPUFIT_ESTIMATE_LIMIT="0")
    hold = tmp_path / "go on"
    with running_kernel(env, tmp_path, cold=True) as kernel:
        before = said("-c", ON_GPUS, env=env)
        kernel.check(SET_UP)
        kernel.check("%%gpufit train --name plain\n" + CELL.format(hold="/"))
        plain = kernel.check(DIGEST).stdout
        kernel.check(SET_UP)
        sent = kernel.send("%%gpufit train --name left\n" + CELL.format(hold=str(hold)))
        kernel.until(sent, "step 9\n")
        assert "released at step 10" in said("-m", "jupyter_gpufit.terminal.cli", "release", "left", env=env)
        assert kernel.finish(sent).released
        assert said("-c", ON_GPUS, env=env) == before
        hold.touch()
        ran = kernel.check("%gpufit resume left")
        assert ran.stdout.startswith("step 10\n") and "not to the bit" not in ran.shown
        assert kernel.check(DIGEST).stdout == plain
