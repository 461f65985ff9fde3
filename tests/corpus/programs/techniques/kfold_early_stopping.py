# needs: sklearn
"""K-fold cross-validation with early stopping, a new model for every fold, results in a DataFrame."""
import copy

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from sklearn.datasets import make_regression
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

torch.manual_seed(42)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
k_folds, num_epochs = 4, 30

# %%
X, y = make_regression(400, 20, n_informative=8, noise=5.0, random_state=1)
X = StandardScaler().fit_transform(X).astype(np.float32)
y = ((y - y.mean()) / y.std()).astype(np.float32)
dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(y)[:, None])


class EarlyStopping:
    def __init__(self, patience=4, min_delta=1e-4):
        self.patience, self.min_delta, self.best, self.counter, self.state = patience, min_delta, None, 0, None

    def __call__(self, loss, model):
        if self.best is None or loss < self.best - self.min_delta:
            self.best, self.counter, self.state = loss, 0, copy.deepcopy(model.state_dict())
        else:
            self.counter += 1
        return self.counter >= self.patience


def reset_weights(m):
    for layer in m.children():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()


# %%
kfold = KFold(n_splits=k_folds, shuffle=True, random_state=0)
network = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)).to(device)
loss_function = nn.MSELoss()

# %% train
results, rows = {}, []
for fold, (train_ids, test_ids) in enumerate(kfold.split(X)):
    trainloader = DataLoader(dataset, batch_size=32, sampler=SubsetRandomSampler(train_ids))
    network.apply(reset_weights)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    stopper = EarlyStopping()
    for epoch in range(num_epochs):
        network.train()
        for inputs, targets in trainloader:
            optimizer.zero_grad()
            loss = loss_function(network(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            val = loss_function(network(dataset.tensors[0][test_ids].to(device)), dataset.tensors[1][test_ids].to(device))
        rows.append({"fold": fold, "epoch": epoch, "train": loss.item(), "val": val.item()})
        if stopper(val.item(), network):
            print(f"fold {fold}: stopped at {epoch}")
            break
    network.load_state_dict(stopper.state)
    torch.save(stopper.state, f"./model-fold-{fold}.pth")
    results[fold] = stopper.best

# %%
frame = pd.DataFrame(rows)
print(frame.groupby("fold")["val"].min().round(4).to_dict() == {k: round(v, 4) for k, v in results.items()}, len(frame))
