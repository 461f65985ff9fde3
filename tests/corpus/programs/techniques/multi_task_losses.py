"""Two heads, learned loss weights, gradient accumulation, frozen then unfrozen layers, bfloat16 autocast."""
import torch
import torch.nn as nn

torch.manual_seed(61)
device = "cuda" if torch.cuda.is_available() else "cpu"
ACCUMULATE, UNFREEZE_AT = 4, 3

# %%
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(30, 96), nn.LayerNorm(96), nn.Mish(), nn.Linear(96, 96), nn.Mish())
        self.value, self.kind = nn.Linear(96, 1), nn.Linear(96, 4)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.trunk(x)
        return self.value(h).squeeze(-1), self.kind(h)

    def loss(self, x, value, kind):
        v, k = self(x)
        parts = torch.stack([nn.functional.mse_loss(v.float(), value), nn.functional.cross_entropy(k.float(), kind)])
        return (torch.exp(-self.log_vars) * parts + self.log_vars).sum(), parts.detach()


x = torch.randn(800, 30)
value, kind = x[:, :5].sum(1) / 2, x[:, 5:9].argmax(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, value, kind), 16, shuffle=True)
model = TwoHeads().to(device)
model.trunk.requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

# %% train
log = []
for epoch in range(8):
    if epoch == UNFREEZE_AT:
        model.trunk.requires_grad_(True)
        print("unfrozen", sum(p.requires_grad for p in model.parameters()))
    seen = torch.zeros(2, device=device)
    for step, batch in enumerate(loader, start=1):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss, parts = model.loss(*(t.to(device) for t in batch))
        (loss / ACCUMULATE).backward()
        seen += parts
        if step % ACCUMULATE == 0 or step == len(loader):
            nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
            optimizer.step()
            optimizer.zero_grad()
    log.append((seen / len(loader)).tolist())
    print(f"epoch {epoch}: value {log[-1][0]:.4f} kind {log[-1][1]:.4f}")

# %%
print([round(v, 3) for v in model.log_vars.tolist()])
