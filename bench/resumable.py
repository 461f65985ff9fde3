"""What it costs that a cell can be left in the middle of a loop: per iteration, per call, and before it starts.

    python bench/resumable.py

Loops that do nothing are timed as written and as rewritten; the difference is the cost. Processor time of the thread,
the least of several rounds.
"""

from __future__ import annotations

import ast
import time

from common import package_root, show_table, write_results

ROUNDS = 7
N = 300_000
OTHER = f"""
class O:
    def f(self):
        pass
def f():
    for i in ():
        pass
def run(o):
    for i in range({N // 10}):
        o.f()
run(O())
"""
CELLS = {
    "an iteration of a for": (N, f"def run():\n    for i in range({N}):\n        pass\nrun()"),
    "an iteration of a while": (N, f"def run():\n    i = 0\n    while i < {N}:\n        i += 1\nrun()"),
    "an item of a generator, in a for": (
        N,
        f"def g():\n    for i in range({N}):\n        yield i\ndef run():\n    for i in g():\n        pass\nrun()",
    ),
    "a call of a function with a loop": (
        N // 10,
        f"def f():\n    for i in ():\n        pass\ndef run():\n    for i in range({N // 10}):\n        f()\nrun()",
    ),
    "a call of another of that name": (N // 10, OTHER),
}
LINES = '''
class Trainer{0}:
    """Trains."""

    def __init__(self, model, loader):
        self.model, self.loader, self.history = model, loader, []

    def fit(self, epochs):
        for epoch in range(epochs):
            with section("epoch"):
                self.history.append(self.epoch(epoch) / max(1, len(self.loader)))
            if self.history[-1] < 0.1 and epoch > 3:
                break
        return self.history

    def epoch(self, number):
        total = 0.0
        for i, (x, y) in enumerate(self.batches()):
            loss = self.model(x).sub(y).pow(2).mean()
            loss.backward()
            total += loss.item()
            print(f"{{number}} {{i}}: {{total:.3f}}")
        return total

    def batches(self):
        for x, y in self.loader:
            yield x.float(), y


trainer = Trainer{0}(model, loader)
for part in range(2):
    trainer.fit(part)
'''


def spent(text: str, rewritten: bool) -> float:
    """Seconds of its run."""
    from jupyter_gpufit.program import Program

    found = []
    for _ in range(ROUNDS):
        namespace: dict[str, object] = {}
        tree = ast.parse(text)
        if rewritten:
            tree = Program(namespace).cell(tree, "<cell>")
        code = compile(tree, "<cell>", "exec", dont_inherit=True)
        began = time.thread_time()
        exec(code, namespace)
        found.append(time.thread_time() - began)
    return min(found)


def preparation(lines: int) -> float:
    """Seconds to rewrite a cell of about so many lines, with a fresh program each time."""
    from jupyter_gpufit.program import Program

    text = "".join(LINES.format(number) for number in range(lines // len(LINES.splitlines())))
    found = []
    for _ in range(ROUNDS):
        tree, program = ast.parse(text), Program({})
        began = time.thread_time()
        made = program.cell(tree, "<cell>")
        found.append(time.thread_time() - began)
        assert made is not tree and not program.notes, program.notes
    return min(found)


def main() -> None:
    package_root()
    import torch  # as in a worker, where its samplers are rewritten with every cell

    costs = {name: (spent(text, True) - spent(text, False)) / count for name, (count, text) in CELLS.items()}
    prepared = {lines: preparation(lines) for lines in (40, 210)}
    rows = [[name, f"{cost * 1e9:.0f} ns"] for name, cost in costs.items()]
    rows += [[f"rewriting a cell of about {lines} lines", f"{cost * 1e3:.1f} ms"] for lines, cost in prepared.items()]
    show_table(["what", "costs"], rows)
    write_results("resumable", {"torch": torch.__version__, "seconds": costs, "rewriting": prepared})


if __name__ == "__main__":
    main()
