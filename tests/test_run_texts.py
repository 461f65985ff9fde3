"""Functions that a text defined which was run, and no cell or module, are left and entered midway like all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]

# A generator, a class, a number that a function sets: what is among the text's own globals must stay one for all.
TEXT = """
import os, time, torch
count = 0
def batches(n):
    for _ in range(n):
        yield torch.randn(4, 3)
class Trainer:
    def __init__(self, hold):
        torch.manual_seed(1)
        self.hold, self.losses = hold, []
        self.net = torch.nn.Linear(3, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
    def step(self, x):
        global count
        count += 1
        loss = self.net(x).pow(2).mean()
        self.opt.zero_grad(); loss.backward(); self.opt.step()
        self.losses.append(loss.item().hex())
    def fit(self, n):
        for x in batches(n):
            self.step(x)
            print("step", count)
            while count == 5 and not os.path.exists(self.hold): time.sleep(0.02)
        return count
def train(hold):
    trainer = Trainer(hold)
    return trainer.fit(9), trainer.losses
"""
SET_UP = {
    "run": "%run {path}",
    "a namespace": "own = {{}}\nexec(open({path!r}).read(), own)\ntrain = own['train']",
    "exec": "exec(open({path!r}).read())",
    "run in the notebook": "%run -i {path}",
    "runpy": "import runpy\ntrain = runpy.run_path({path!r})['train']",
    "a variable": "text = open({path!r}).read()\nexec(compile(text, '<mine>', 'exec'))",
    "a module of no import": "import types\nmade = types.ModuleType('made')\n"
    "exec(open({path!r}).read(), vars(made))\ntrain = made.train",
}


def _soaked(*names: str) -> list[Any]:
    return [pytest.param(one, marks=pytest.mark.soak) for one in names]


@pytest.mark.parametrize("how", ["run", "a namespace", *_soaked(*list(SET_UP)[2:])])
def test_it_is_released_in_a_function_of_a_text_that_an_earlier_cell_ran(
    kernel: Kernel, env: dict[str, str], home: Path, how: str
) -> None:
    name = how.replace(" ", "_")
    path, hold = home / f"{name}.py", home / f"{name}.go"
    path.write_text(TEXT)
    kernel.check(SET_UP[how].format(path=str(path)))
    sent = kernel.send(f"%%gpufit train --name {name}\nfound = train({str(hold)!r})")
    kernel.until(sent, "step 5\n")

    said = gpufit(env, "release", name)

    assert said.returncode == 0, said.stderr
    assert "step 5 (line" in said.stdout and "in Trainer.fit()" in said.stdout
    assert kernel.finish(sent).released
    path.write_text("a text by now that is no Python")
    hold.touch()
    ran = kernel.check(f"%gpufit resume {name}")
    assert ran.stdout == "".join(f"step {one}\n" for one in range(6, 10))
    path.write_text(TEXT)
    kernel.check(f"plain = {{}}\nexec(open({str(path)!r}).read(), plain)\nassert found == plain['train']('/'), found")


SCRIPT = """
import argparse, os, sys, time
import torch
from torch.nn import *
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
args = parser.parse_args()
count: int = 0
class Net(Module):
    def __init__(self):
        super().__init__()
        self.layer = Linear(3, 1)
    def forward(self, x):
        return self.layer(x)
torch.manual_seed(1)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
losses = []
def batches():
    for _ in range(args.steps):
        yield torch.randn(4, 3)
def step(x):
    global count
    count += 1
    loss = net(x).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item().hex())
    print("step", count)
    while f"{count}" in HELD and not os.path.exists(f"{HOLD}-{count}"): time.sleep(0.02)
for x in batches():
    step(x)
def main():
    for x in batches():
        step(x)
    if sys.modules["__main__"].__dict__.get("Net") is Net:
        torch.save(net, f"{HOLD}.pt")
        print(torch.load(f"{HOLD}.pt", weights_only=False)(torch.ones(1, 3)).item())
if __name__ in ("__main__", "<run_path>"):
    main()
    print(count, len(sys.argv), os.path.basename(sys.argv[0]), sys.modules["__main__"].__dict__.get("count"))
"""
CELLS = {
    "run": "%run {path} --steps 4",
    "exec": "import sys\nsys.argv = ['train', '--steps', '4']\nexec(open({path!r}).read())",
    "a dictionary": "import sys\nsys.argv = ['train', '--steps', '4']\nown = {{'__name__': '__main__'}}\n"
    "exec(compile(open({path!r}).read(), {path!r}, 'exec'), own)\nlosses = own['losses']",
    "runpy": "import runpy, sys\nsys.argv = ['train', '--steps', '4']\n"
    "losses = runpy.run_path({path!r}, run_name='__main__')['losses']",
    "run in the notebook": "for turn in range(1):\n    %run -i {path} --steps 4",
}


@pytest.mark.parametrize("how", ["run", "a dictionary", *_soaked("exec", "runpy", "run in the notebook")])
def test_a_cell_that_runs_a_file_is_released_in_its_loop_and_in_a_function_of_its(
    kernel: Kernel, env: dict[str, str], home: Path, how: str
) -> None:
    name = "cell_" + how.replace(" ", "_")
    path, hold = home / f"{name}.py", home / f"{name}.go"
    text = f"HELD, HOLD = ('3', '6'), {str(hold)!r}\n{SCRIPT}"
    path.write_text(text)
    cell = CELLS[how].format(path=str(path))
    sent = kernel.send(f"%%gpufit train --name {name}\n{cell}")
    for step in (3, 6):
        kernel.until(sent, f"step {step}\n")
        said = gpufit(env, "release", name)
        assert said.returncode == 0, said.stderr
        assert f"step {step} (line" in said.stdout and "in step()" in said.stdout
        assert kernel.finish(sent).released
        Path(f"{hold}-{step}").touch()
        if how == "run":
            path.unlink(missing_ok=True)  # its text is in the checkpoint
        sent = kernel.send(f"%gpufit resume {name}")
    ended = kernel.finish(sent)
    assert ended.ok and ended.stdout.startswith("step 7\nstep 8\n"), ended
    resumed = kernel.check("print(losses)").stdout
    path.write_text(text)
    plain = kernel.check(cell)

    assert plain.stdout.endswith(ended.stdout)
    assert kernel.check("print(losses)").stdout == resumed


PARSES = """
import argparse, os, time
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
args = parser.parse_args()
class Net(torch.nn.Linear): pass
def main():
    torch.manual_seed(1)
    net = Net(2, 1)
    for step in range(args.steps):
        net.weight.data += torch.randn(1, 2)
        print("step", step)
        while step == 1 and not os.path.exists(os.environ["HOLD"]): time.sleep(0.02)
    return net.weight.tolist()
"""


def test_a_module_that_parses_the_command_line_where_it_is_imported(
    kernel: Kernel, env: dict[str, str], home: Path
) -> None:
    """Scripts of repositories do; the kernel imports it for what comes back, another process for a resume."""
    (home / "parses_main.py").write_text(PARSES)
    hold = home / "parses.go"
    kernel.check(f"import os, sys\nsys.path.insert(0, {str(home)!r})\nos.environ['HOLD'] = {str(hold)!r}")
    sent = kernel.send(
        "%%gpufit train --name parses\nimport sys\nsys.argv = ['main.py', '--steps', '4']\n"
        "from parses_main import main\nweights = main()"
    )
    kernel.until(sent, "step 1\n")
    assert gpufit(env, "release", "parses").returncode == 0
    assert kernel.finish(sent).released
    hold.touch()

    ran = kernel.check("%gpufit resume parses")

    assert ran.stdout == "step 2\nstep 3\n"
    kernel.check("assert main() == weights, weights")
