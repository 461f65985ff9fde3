"""Live matplotlib curves in the loop, try / except KeyboardInterrupt / finally, and a log file beside."""
import json
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from IPython import display
from torch import nn

torch.manual_seed(55)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
folder = Path("experiment")
folder.mkdir(exist_ok=True)

# %%
class Animator:
    def __init__(self, legend):
        self.legend, self.X, self.Y = legend, [], [[] for _ in legend]

    def add(self, x, *ys):
        self.X.append(x)
        for row, y in zip(self.Y, ys):
            row.append(y)
        fig, ax = plt.subplots(figsize=(3, 2))
        for row, name in zip(self.Y, self.legend):
            ax.plot(self.X, row, label=name)
        ax.legend()
        fig.savefig(folder / "curves.png")
        plt.close(fig)
        display.clear_output(wait=True)


x = torch.linspace(-3, 3, 400)[:, None]
y = torch.sinc(x) + 0.05 * torch.randn_like(x)
model = nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 1e-3, 8e-3, step_size_up=20, cycle_momentum=False)
animator = Animator(["loss", "lr"])

# %% train
log = (folder / "log.jsonl").open("w")
status = "running"
try:
    for epoch in range(30):
        for idx in torch.randperm(400).split(25):
            loss = (model(x[idx].to(device)) - y[idx].to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        log.write(json.dumps({"epoch": epoch, "loss": loss.item()}) + "\n")
        if epoch % 10 == 0:
            animator.add(epoch, loss.item(), scheduler.get_last_lr()[0])
except KeyboardInterrupt:
    status = "interrupted"
else:
    status = "done"
finally:
    log.close()
print(status)

# %%
rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
print(len(rows), rows[-1]["epoch"], len(animator.X))
