"""Functions that a text defined which was run, and no cell or module, are left and entered midway like all others."""

from __future__ import annotations

from pathlib import Path

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
SOAKED = [pytest.param(one, marks=pytest.mark.soak) for one in list(SET_UP)[2:]]


@pytest.mark.parametrize("how", ["run", "a namespace", *SOAKED])
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
    assert kernel.finish(sent).ok
    path.write_text("a text by now that is no Python")
    hold.touch()
    ran = kernel.check(f"%gpufit resume {name}")
    assert ran.stdout == "".join(f"step {one}\n" for one in range(6, 10))
    path.write_text(TEXT)
    kernel.check(f"plain = {{}}\nexec(open({str(path)!r}).read(), plain)\nassert found == plain['train']('/'), found")
