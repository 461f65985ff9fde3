"""Stochastic weight averaging: AveragedModel, SWALR, update_bn."""
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
X = torch.randn(1024, 32)
y = (X[:, :4].prod(1) > 0).long()
train_dl = DataLoader(TensorDataset(X[:768], y[:768]), batch_size=64, shuffle=True)
test_dl = DataLoader(TensorDataset(X[768:], y[768:]), batch_size=256)
model = nn.Sequential(
    nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 2)
).to(device)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
swa_model = AveragedModel(model)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
swa_start, epochs = 20, 60
swa_scheduler = SWALR(optimizer, swa_lr=0.05)


def accuracy(net):
    net.eval()
    with torch.no_grad():
        return sum((net(a.to(device)).argmax(1).cpu() == b).sum().item() for a, b in test_dl) / 256


# %% train
for epoch in range(epochs):
    model.train()
    for xb, yb in train_dl:
        optimizer.zero_grad()
        loss_fn(model(xb.to(device)), yb.to(device)).backward()
        optimizer.step()
    if epoch > swa_start:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    if epoch % 10 == 9:
        print(epoch, f"{accuracy(model):.3f}", f"{optimizer.param_groups[0]['lr']:.4f}")
update_bn(train_dl, swa_model, device=device)

# %%
print(f"{accuracy(swa_model):.3f}", swa_model.n_averaged.item())
