# needs: ignite
"""pytorch-ignite: engines, metrics, handlers by decorator, checkpoints by ModelCheckpoint."""
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping, ModelCheckpoint
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
x = torch.randn(640, 1, 12, 12)
y = (x[:, 0, :6].mean((1, 2)) > x[:, 0, 6:].mean((1, 2))).long()
train_loader = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x[512:], y[512:]), batch_size=64)
model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1200, 2)).to(device)
optimizer, criterion = torch.optim.RMSprop(model.parameters(), lr=0.002), nn.CrossEntropyLoss()

# %%
trainer = create_supervised_trainer(model, optimizer, criterion, device)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(criterion)}, device)
seen = []


@trainer.on(Events.ITERATION_COMPLETED(every=8))
def log_training_loss(engine):
    seen.append(engine.state.output)


@trainer.on(Events.EPOCH_COMPLETED)
def log_validation_results(trainer):
    evaluator.run(val_loader)
    metrics = evaluator.state.metrics
    print(f"Epoch[{trainer.state.epoch}] accuracy: {metrics['accuracy']:.3f} loss: {metrics['loss']:.4f}")


def score(engine):
    return -engine.state.metrics["loss"]


evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(patience=20, score_function=score, trainer=trainer))
saver = ModelCheckpoint("kept", n_saved=1, filename_prefix="best", score_function=score, score_name="loss", require_empty=False)
evaluator.add_event_handler(Events.COMPLETED, saver, {"model": model})

# %% train
state = trainer.run(train_loader, max_epochs=40)

# %%
print(state.iteration, len(seen))
