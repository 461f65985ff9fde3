"""A small ResNet with mixed precision, OneCycle, clipping and channels_last, by a dictionary of settings."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

config = {"epochs": 8, "batch_size": 32, "max_lr": 0.05, "clip": 1.0, "width": 16}
torch.manual_seed(42)
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or inplanes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


def resnet(width, classes=4):
    layers, planes = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stride in (1, 2, 2):
        layers.append(BasicBlock(planes, planes * stride, stride))
        planes *= stride
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(planes, classes))


# %%
images = torch.randn(256, 3, 24, 24)
labels = (images.mean((1, 2, 3)) * 60).long().clamp(-2, 1) + 2
loader = DataLoader(TensorDataset(images, labels), config["batch_size"], shuffle=True, pin_memory=True)
model = resnet(config["width"]).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=config["max_lr"], momentum=0.9, weight_decay=5e-4, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=config["max_lr"], steps_per_epoch=len(loader), epochs=config["epochs"]
)
scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
print(sum(p.numel() for p in model.parameters()), "parameters")

# %% train
lrs = []
for epoch in range(config["epochs"]):
    correct = total = 0
    for x, y in loader:
        x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            logits = model(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), config["clip"])
        scaler.step(optimizer)
        scaler.update()
        lrs.append(scheduler.get_last_lr()[0])
        scheduler.step()
        correct += (logits.argmax(1) == y).sum().item()
        total += y.numel()
    print(f"epoch {epoch + 1}: {correct / total:.3f}")

# %%
print(len(lrs), max(lrs))
