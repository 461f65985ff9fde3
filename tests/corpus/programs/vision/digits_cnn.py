"""A small CNN on drawn digits, with train() and test() as functions."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"Using {device} device")

# %%
prototypes = torch.rand(10, 1, 28, 28)


def draw(count):
    labels = torch.randint(0, 10, (count,))
    return TensorDataset(prototypes[labels] + 0.4 * torch.randn(count, 1, 28, 28), labels)


train_loader = DataLoader(draw(768), batch_size=64, shuffle=True)
test_loader = DataLoader(draw(256), batch_size=128)


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(16 * 12 * 12, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(self.drop(torch.flatten(x, 1))))
        return F.log_softmax(self.fc2(x), dim=1)


def train(model, device, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % 4 == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(loader.dataset)}]\tLoss: {loss.item():.6f}")


def test(model, device, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            correct += (model(data).argmax(1) == target).sum().item()
    print(f"Accuracy: {correct}/{len(loader.dataset)}")
    return correct


# %%
model = Net().to(device)
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)

# %% train
for epoch in range(1, 11):
    train(model, device, train_loader, optimizer, epoch)
    best = test(model, device, test_loader)
    scheduler.step()
torch.save(model.state_dict(), "digits_cnn.pt")

# %%
with torch.no_grad():
    print(model(prototypes.to(device)).argmax(1).tolist())
