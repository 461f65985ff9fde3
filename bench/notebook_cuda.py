"""What the stand-in for `cuda` costs in a notebook's own process, beside a plain one with device "cpu".

Rows: small operations with nothing on the stand-in yet and with their tensors on it, attributes, a training step of a
small model, and what begins with the import of torch.
"""

from __future__ import annotations

import subprocess
import sys
import timeit
from typing import Any

from common import package_root, show_table, write_results

package_root()

import torch  # noqa: E402 - needs the path above

from jupyter_gpufit.cuda.slot import SlotMode, standing_in  # noqa: E402
from jupyter_gpufit.devices import sides  # noqa: E402
from jupyter_gpufit.notebook.cuda.answers import NotebookAnswers  # noqa: E402
from jupyter_gpufit.notebook.cuda.expected import Expected  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402

ROWS = {
    "an addition": "x + y",
    "an addition in place": "x.add_(y)",
    "a view": "x[0]",
    ".shape": "x.shape",
    ".device": "x.device",
    ".grad": "w.grad",
    "a matmul of 256 x 256": "a @ a",
    "a training step, MLP of 10 layers, batch 64": "step()",
}
SETUP = """
import torch
x, y, a = torch.ones(4, device=d), torch.ones(4, device=d), torch.ones(256, 256, device=d)
w = torch.ones(4, device=d, requires_grad=True); w.sum().backward()
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(10)]).to(d)
optimizer, batch = torch.optim.AdamW(model.parameters()), torch.randn(64, 256, device=d)
def step():
    model(batch).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
"""


def rows(device: str) -> dict[str, float]:
    """Microseconds, the least of five."""
    namespace: dict[str, Any] = {"d": device}
    exec(SETUP, namespace)
    found = {}
    for name, code in ROWS.items():
        timer = timeit.Timer(code, globals=namespace)
        count = max(1, timer.autorange()[0] // 4)
        found[name] = min(timer.repeat(5, count)) / count * 1e6
    return found


def import_time(*first: str) -> float:
    """Seconds until `import torch` is done in a new process, the least of five."""
    code = ";".join([*first, "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"])
    ran = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(one.stdout.split()[-1]) for one in ran)


LOADED = (
    "from IPython.core.interactiveshell import InteractiveShell",
    "from jupyter_gpufit.notebook.cuda import KernelCuda",
    "from jupyter_gpufit.settings import Settings",
    "KernelCuda(InteractiveShell.instance(), Settings(devices='cpu:1x4GiB'), print).begin()",
)


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {"plain": rows("cpu")}
    expected = Expected(Settings(devices="cpu:1x4GiB"), lambda: None)
    with standing_in(SlotMode(expected), NotebookAnswers(expected)):
        sides.is_used = False
        results["nothing on it yet"] = rows("cpu")
        results["on it"] = rows("cuda")
    results["import torch"] = {"plain": import_time(), "with the stand-in": import_time(*LOADED)}
    heads = ("microseconds", "plain", "nothing on it yet", "on it")
    show_table(heads, [(name, *(f"{results[head][name]:.2f}" for head in heads[1:])) for name in ROWS])
    print({name: f"{value:.2f} s" for name, value in results["import torch"].items()})
    write_results("notebook_cuda", results)


if __name__ == "__main__":
    main()
