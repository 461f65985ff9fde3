# needs: optuna
"""optuna: an objective that builds, trains, reports and is pruned."""
import optuna
import torch
import torch.nn as nn
import torch.nn.functional as F

optuna.logging.set_verbosity(optuna.logging.WARNING)
torch.manual_seed(0)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPOCHS, CLASSES = 6, 3

# %%
x, centres = torch.randn(480, 16), torch.randn(16, CLASSES)
y = (x @ centres).argmax(1)
train_set = list(zip(x[:384].split(32), y[:384].split(32)))
x_val, y_val = x[384:].to(DEVICE), y[384:].to(DEVICE)


def define_model(trial):
    layers, width = [], 16
    for i in range(trial.suggest_int("n_layers", 1, 3)):
        out = trial.suggest_int(f"n_units_l{i}", 8, 64, log=True)
        layers += [nn.Linear(width, out), nn.ReLU(), nn.Dropout(trial.suggest_float(f"dropout_l{i}", 0.0, 0.3))]
        width = out
    return nn.Sequential(*layers, nn.Linear(width, CLASSES), nn.LogSoftmax(dim=1))


def objective(trial):
    model = define_model(trial).to(DEVICE)
    optimizer_name = trial.suggest_categorical("optimizer", ["Adam", "RMSprop", "SGD"])
    optimizer = getattr(torch.optim, optimizer_name)(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 1e-1, log=True))
    for epoch in range(EPOCHS):
        model.train()
        for data, target in train_set:
            optimizer.zero_grad()
            F.nll_loss(model(data.to(DEVICE)), target.to(DEVICE)).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(x_val).argmax(1) == y_val).float().mean().item()
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.exceptions.TrialPruned()
    return accuracy


# %%
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=10), pruner=optuna.pruners.MedianPruner())

# %% train
study.optimize(objective, n_trials=16)
states = [t.state.name for t in study.trials]
print(f"best {study.best_value:.4f} of {len(states)}, pruned {states.count('PRUNED')}")

# %%
print({k: v if isinstance(v, (int, str)) else round(v, 4) for k, v in study.best_trial.params.items()})
