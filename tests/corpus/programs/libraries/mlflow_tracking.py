# needs: mlflow, sklearn
"""mlflow with a store in a file: parameters and metrics of two nested runs, the weights as an artifact."""
import mlflow
import torch
from sklearn.datasets import load_iris
from torch import nn

torch.manual_seed(27)
device = "cuda" if torch.cuda.is_available() else "cpu"
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("iris")

# %%
X, y = load_iris(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32).to(device), torch.tensor(y).to(device)
params = {"epochs": 60, "lr": 0.01, "hidden": [8, 24]}


def fit(hidden, lr, epochs):
    model = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for idx in torch.randperm(len(X), device=device).split(25):
            loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 20 == 19:
            mlflow.log_metric("loss", loss.item(), step=epoch)
    return model, (model(X).argmax(1) == y).float().mean().item()


# %% train
scores = {}
with mlflow.start_run(run_name="parent"):
    mlflow.log_params(params)
    for hidden in params["hidden"]:
        with mlflow.start_run(run_name=f"hidden-{hidden}", nested=True):
            model, scores[hidden] = fit(hidden, params["lr"], params["epochs"])
            mlflow.log_metric("accuracy", scores[hidden])
    mlflow.log_metric("best", max(scores.values()))
print({k: round(v, 3) for k, v in scores.items()})

# %%
print(len(mlflow.search_runs(experiment_names=["iris"], output_format="list")) >= 3)
