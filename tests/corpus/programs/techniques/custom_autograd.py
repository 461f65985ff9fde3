"""A custom autograd Function: a straight-through sign in a binary network, and two parameter groups."""
import torch
from torch import nn
from torch.autograd import Function

torch.manual_seed(14)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class SignSTE(Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        ctx.width = width
        return x.sign()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= ctx.width).to(grad_output.dtype), None


class BinaryLinear(nn.Linear):
    def forward(self, x):
        weight = SignSTE.apply(self.weight, 1.0) * self.weight.abs().mean()
        return nn.functional.linear(x, weight, self.bias)


net = nn.Sequential(BinaryLinear(40, 96), nn.BatchNorm1d(96), nn.Hardtanh(), BinaryLinear(96, 96), nn.Hardtanh(), nn.Linear(96, 3))
net = net.to(device)
binary = [m.weight for m in net.modules() if isinstance(m, BinaryLinear)]
others = [p for p in net.parameters() if all(p is not b for b in binary)]
optimizer = torch.optim.Adam([{"params": binary, "lr": 3e-3}, {"params": others, "lr": 1e-2}])
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [200, 300], gamma=0.3)
teacher = torch.randn(40, 3, device=device)

# %% train
i, correct = 0, []
while i < 400:
    x = torch.randn(64, 40, device=device)
    y = (x @ teacher).argmax(1)
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for w in binary:
            w.clamp_(-1, 1)
    scheduler.step()
    correct.append((out.argmax(1) == y).float().mean().item())
    i += 1
    if i % 100 == 0:
        print(i, f"{sum(correct[-50:]) / 50:.3f}", scheduler.get_last_lr())

# %%
print(sorted(set(SignSTE.apply(binary[0].detach().flatten()[:50], 1.0).tolist())))
