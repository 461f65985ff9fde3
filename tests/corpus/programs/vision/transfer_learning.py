"""Transfer learning: a frozen backbone, a new head, phases, and the best weights by torch.load at the end."""
import os
import time

import numpy as np
import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
np.random.seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

# %%
def make(count, shift):
    labels = torch.randint(0, 2, (count,))
    images = torch.randn(count, 3, 32, 32) + shift * labels.view(-1, 1, 1, 1)
    return TensorDataset(images, labels)


image_datasets = {"train": make(256, 0.2), "val": make(96, 0.2)}
dataloaders = {x: DataLoader(image_datasets[x], batch_size=16, shuffle=True) for x in ["train", "val"]}
dataset_sizes = {x: len(image_datasets[x]) for x in ["train", "val"]}

# %%
def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


backbone = nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
for param in backbone.parameters():
    param.requires_grad = False
model_ft = nn.Sequential()
model_ft.add_module("features", backbone)
model_ft.add_module("fc", nn.Linear(64, 2))
model_ft = model_ft.to(device)
criterion = nn.CrossEntropyLoss()
optimizer_ft = optim.SGD(filter(lambda p: p.requires_grad, model_ft.parameters()), lr=0.01, momentum=0.9)
exp_lr_scheduler = lr_scheduler.StepLR(optimizer_ft, step_size=4, gamma=0.1)

# %%
def train_model(model, criterion, optimizer, scheduler, num_epochs=25):
    since = time.time()
    best_path = os.path.join(os.getcwd(), "best_model_params.pt")
    torch.save(model.state_dict(), best_path)
    best_acc = 0.0
    for epoch in range(num_epochs):
        print(f"Epoch {epoch}/{num_epochs - 1}\n" + "-" * 10)
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            running_loss, running_corrects = 0.0, 0
            for inputs, labels in dataloaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
            if phase == "train":
                scheduler.step()
            epoch_acc = running_corrects.double() / dataset_sizes[phase]
            print(f"{phase} Loss: {running_loss / dataset_sizes[phase]:.4f} Acc: {epoch_acc:.4f}")
            if phase == "val" and epoch_acc > best_acc:
                best_acc = epoch_acc
                torch.save(model.state_dict(), best_path)
    elapsed = time.time() - since
    model.load_state_dict(torch.load(best_path, weights_only=True))
    return model, best_acc, elapsed

# %% train
model_ft, best_acc, elapsed = train_model(model_ft, criterion, optimizer_ft, exp_lr_scheduler, num_epochs=40)

# %%
print(f"Best val Acc: {best_acc:.4f}", next(model_ft.parameters()).requires_grad)
