"""Takes the picture of one step as it is and by a plan: docs/step-by-a-plan.svg. Look at it.

    python docs/two_plans.py        in a checkout with matplotlib; takes a minute

It is what `%%gpufit estimate` shows of this cell, for a card that has too little memory for it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

MAKES = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.attention = nn.MultiheadAttention(wide, 16, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x):  # (B, T, C)
        h = self.n1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))

class GPT(nn.Module):
    def __init__(self, words=50257, wide=1024, blocks=12, long=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, wide), nn.Parameter(torch.zeros(long, wide))
        self.blocks = nn.Sequential(*(Block(wide) for _ in range(blocks)))
        self.head = nn.Linear(wide, words, bias=False)

    def forward(self, ids):  # (B, T)
        return self.head(self.blocks(self.words(ids) + self.places))
"""
CELL = """%%gpufit estimate --on "RTX 3060 12GB"
model = GPT().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(1000):
    ids = torch.randint(0, 50257, (16, 512), device="cuda")
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "GPUFIT_ESTIMATE_LIMIT": "600"}
        options = Config()
        options.HistoryManager.enabled = False  # its file would be gone before the shell
        shell = InteractiveShell.instance(config=options)
        for cell in ("%load_ext jupyter_gpufit", MAKES):
            shell.run_cell(cell).raise_error()
        with capture_output() as out:
            ran = shell.run_cell(CELL)
        ran.raise_error()
    drawn = None
    for one in out.outputs:
        sys.stdout.write(one.data["text/plain"] + "\n")
        drawn = one.data.get("image/svg+xml", drawn)
    if drawn is None:
        sys.exit("No picture was drawn: is matplotlib there?")
    (DOCS / "step-by-a-plan.svg").write_text(drawn)


if __name__ == "__main__":
    main()
