# needs: torchmetrics, tensorboard, einops
"""einops in a small vision transformer, torchmetrics on the way, scalars and histograms to tensorboard."""
import torch
from einops import rearrange, repeat
from einops.layers.torch import Rearrange
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from torchmetrics import Accuracy, MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassF1Score

torch.manual_seed(25)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.norm, self.qkv, self.out = heads, nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = rearrange(self.qkv(self.norm(x)), "b n (three h d) -> three b h n d", three=3, h=self.heads)
        a = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5, dim=-1)
        return self.out(rearrange(a @ v, "b h n d -> b n (h d)"))


class ViT(nn.Module):
    def __init__(self, d=32, classes=3):
        super().__init__()
        self.patches = nn.Sequential(Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), nn.Linear(48, d))
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(1, 17, d))
        self.layers, self.head = nn.ModuleList(Attention(d, 4) for _ in range(2)), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patches(x)
        x = torch.cat([repeat(self.cls, "1 1 d -> b 1 d", b=len(x)), x], dim=1) + self.pos
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x[:, 0])


# %%
y = torch.randint(0, 3, (384,))
x = torch.randn(384, 3, 16, 16) + nn.functional.one_hot(y, 3)[:, :, None, None] * 0.5
model = ViT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
metrics = MetricCollection({"acc": Accuracy(task="multiclass", num_classes=3), "f1": MulticlassF1Score(3)}).to(device)
mean_loss = MeanMetric().to(device)

# %% train
writer = SummaryWriter("runs/vit")
for epoch in range(14):
    for step, idx in enumerate(torch.randperm(len(x)).split(32)):
        xb, yb = x[idx].to(device), y[idx].to(device)
        logits = model(xb)
        loss = nn.functional.cross_entropy(logits, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean_loss.update(loss.detach())
        metrics.update(logits.detach(), yb)
        writer.add_scalar("loss", loss.item(), epoch * 12 + step)
    computed = {k: round(v.item(), 4) for k, v in metrics.compute().items()}
    print(epoch, computed, round(mean_loss.compute().item(), 4))
    writer.add_histogram("head", model.head.weight.detach().cpu(), epoch)
    metrics.reset()
    mean_loss.reset()
writer.close()

# %%
print(computed["acc"] > 0.5)
