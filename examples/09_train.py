"""A training as one starts it in a terminal: `gpufit run -- python 09_train.py`."""

import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(200):
    x = torch.randn(32, 8, device=device)  # (B, D)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"script: loss {loss.item():.6f}")
