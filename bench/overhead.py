"""What %%gpufit train costs beside the same cell in a plain kernel: starting, printing, and the kernel's attention.

Rows: an empty cell cold and with a spare worker, 20,000 and 80,000 prints, and how soon a widget's message is answered
while a cell waits, each beside the plain kernel in the same run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import package_root, seconds, show_table, write_results

package_root()

from tests.kernels import Kernel, environment, running_kernel  # noqa: E402 - needs the path above

REPEAT = 7
PRINTS = "for i in range({many}): print(i)\n"


def empty_cells(home: Path) -> dict[str, Any]:
    """An empty cell: plain, in a cold worker, in a spare one that had time to import."""
    found = {}
    with running_kernel(environment(home), home) as kernel:
        kernel.check("import torch")
        found["plain"] = seconds(lambda: kernel.check("pass"), REPEAT)
        found["cold"] = seconds(lambda: kernel.check("%%gpufit train\npass\n"), REPEAT)
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1"), home) as kernel:
        taken = []
        for _ in range(REPEAT):
            time.sleep(5)  # as a person reads: the spare imports torch meanwhile
            start = time.perf_counter()
            kernel.check("%%gpufit train\npass\n")
            taken.append(time.perf_counter() - start)
        found["spare"] = {"min": min(taken), "median": statistics.median(taken), "max": max(taken)}
    return found


def import_times() -> dict[str, float]:
    """Where a cold start goes: a process that imports what a worker imports, and no more."""

    def run(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5)["median"]

    bare = run("pass")
    return {
        "python": bare,
        "import torch": run("import torch") - bare,
        "import IPython": run("import IPython") - bare,
        "all a worker imports": run("from jupyter_gpufit.worker import child; child._import_what_takes_long()") - bare,
    }


def prints(home: Path, many: int) -> dict[str, Any]:
    """So many prints; the job's start is not among them. In turn, so that both meet the same machine."""
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1"), home) as kernel:
        plain, within = [], []
        for _ in range(REPEAT):
            begin = time.perf_counter()
            kernel.check(PRINTS.format(many=many))
            plain.append(time.perf_counter() - begin)
            within.append(_from_first_to_last(kernel, many))
        return {
            name: {"min": min(taken), "median": statistics.median(taken), "max": max(taken)}
            for name, taken in (("plain", plain), ("worker", within))
        }


def _from_first_to_last(kernel: Kernel, many: int) -> float:
    """Seconds from the start of the loop in the worker until the last line has reached the client."""
    begins = "%%gpufit train\nimport time\nprint('the loop begins at', time.time())\n"
    sent = kernel.send(begins + PRINTS.format(many=many))
    said = kernel.until(sent, f"\n{many - 1}").stdout
    ended = time.time()
    kernel.finish(sent)
    return ended - float(said.partition("the loop begins at")[2].split()[0])


def attention(home: Path) -> dict[str, Any]:
    """Seconds until a comm message is answered: idle kernel, and while a cell waits for its job."""
    with running_kernel(environment(home), home) as kernel:
        kernel.check(
            "import ipywidgets\nbutton = ipywidgets.Button()\n"
            "button.on_click(lambda _: setattr(button, 'description', button.description + '.'))\n"
        )
        comm = kernel.check("print(button.comm.comm_id)").stdout.strip()
        idle = [_click(kernel, comm) for _ in range(REPEAT)]
        sent = kernel.send("%%gpufit train\nimport time\nprint('in the loop')\ntime.sleep(600)\n")
        kernel.until(sent, "in the loop")
        waiting = [_click(kernel, comm) for _ in range(REPEAT)]
        kernel.interrupt()
        kernel.finish(sent)
    return {
        "idle kernel": {"median": statistics.median(idle), "max": max(idle)},
        "a cell waits": {"median": statistics.median(waiting), "max": max(waiting)},
    }


def _click(kernel: Kernel, comm: str) -> float:
    content = {"comm_id": comm, "data": {"method": "custom", "content": {"event": "click"}}}
    message = kernel.client.session.msg("comm_msg", content)
    start = time.perf_counter()
    kernel.client.shell_channel.send(message)
    while True:
        answer = kernel.client.get_iopub_msg(timeout=30)
        if answer["msg_type"] == "comm_msg" and answer["content"]["comm_id"] == comm:
            return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        results = {
            "empty cell": empty_cells(home),
            "imports": import_times(),
            "20,000 prints": prints(home, 20_000),
            "80,000 prints": prints(home, 80_000),
            "widget message": attention(home),
        }
    rows = []
    for name, kinds in results.items():
        for kind, figures in kinds.items():
            shown = figures if isinstance(figures, dict) else {"median": figures}
            rows.append(
                (name, kind, *(f"{shown[key]:.3f}" if key in shown else "" for key in ("min", "median", "max")))
            )
    show_table(("what", "where", "min s", "median s", "max s"), rows)
    write_results("overhead", results)


if __name__ == "__main__":
    main()
