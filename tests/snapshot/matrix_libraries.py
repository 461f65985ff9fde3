"""Trainings by the loops of libraries, and compiled ones."""

from __future__ import annotations

from .matrix_cell import BEGIN, DATA, Cell

OF_LIBRARIES: dict[str, Cell] = {}

OF_LIBRARIES["compiled"] = Cell(
    BEGIN
    + """
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), backend="aot_eager")

@torch.compile(backend="aot_eager")
def loss_of(out, y):
    return (out - y).pow(2).mean()

opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for i in range(4):
        x = torch.randn(6, 4)
        loss = loss_of(model(x), x.sum(1, keepdim=True))
        opt.zero_grad(); loss.backward(); opt.step()
        say(loss)
""",
    slow_to_start=True,
)

OF_LIBRARIES["hf trainer"] = Cell(
    BEGIN
    + DATA
    + """
import os
os.environ["TQDM_DISABLE"]="1"
import transformers
from transformers import Trainer, TrainingArguments
transformers.logging.set_verbosity_error()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    def forward(self, x, labels=None):
        out = self.l(x)
        return {"loss": F.cross_entropy(out, labels), "logits": out}

class Items(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        return {"x": X[i] + 0.01 * torch.randn(6) + 0.01 * random.random(), "labels": Y[i]}

args = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2, seed=5,
    learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
model = Net()
trainer = Trainer(model=model, args=args, train_dataset=Items())
result = trainer.train()
loss = result.training_loss
steps = result.global_step
told = ("loss", "grad_norm", "learning_rate", "epoch")
history = [{k: v for k, v in one.items() if k in told} for one in trainer.state.log_history]
del trainer, result, args
""",
    slow_to_start=True,
    needs=("transformers", "accelerate"),
    loads=("transformers.trainer",),
    clock="runtime",
)

OF_LIBRARIES["lightning"] = Cell(
    BEGIN
    + DATA
    + """
import logging, warnings
warnings.simplefilter("ignore")
import lightning as L
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.loggers import CSVLogger
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class Items(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        return X[i] + 0.01 * torch.randn(6) + 0.01 * random.random() + 0.01 * np.random.rand(), Y[i]

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
        self.seen = []
    def training_step(self, batch, number):
        x, y = batch
        loss = F.cross_entropy(self.l(x.float()), y)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.seen.append(loss.item())
        return loss
    def validation_step(self, batch, number):
        x, y = batch
        loss = F.cross_entropy(self.l(x.float()), y)
        self.log("val_loss", loss)
        self.seen.append(loss.item())
    def on_validation_epoch_end(self):
        say(self.current_epoch, self.trainer.callback_metrics["val_loss"])
    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [opt], [torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)]

model = Net()
bars = [RichProgressBar(console_kwargs={"stderr": True})]
trainer = L.Trainer(
    max_epochs=3, accelerator="cpu", devices=1, accumulate_grad_batches=2, gradient_clip_val=1.0,
    val_check_interval=0.5, log_every_n_steps=1, callbacks=bars, logger=CSVLogger("."))
trainer.fit(model, DataLoader(Items(), 4, shuffle=True), DataLoader(Items(), 8))
seen, steps = model.seen, trainer.global_step
lr = [group["lr"] for group in trainer.optimizers[0].param_groups]
adam = trainer.optimizers[0]
metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
table = list(open(trainer.logger.log_dir + "/metrics.csv"))
del trainer, bars
""",
    slow_to_start=True,
    needs=("lightning", "rich"),
    loads=("lightning",),
    clock="it/s",
)

OF_LIBRARIES["skorch"] = Cell(
    """
net.fit(X.numpy(), Y.numpy())
losses = [[batch.get("train_loss") for batch in epoch["batches"]] for epoch in net.history]
weights, probabilities = net.module_.state_dict(), net.predict_proba(X.numpy())
""",
    before=BEGIN
    + DATA
    + """
from skorch import NeuralNetClassifier

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3), nn.Softmax(-1))

    def forward(self, x):
        return self.layers(x)

net = NeuralNetClassifier(Net, max_epochs=2, batch_size=6, iterator_train__shuffle=True, verbose=0, lr=0.1)
""",
    slow_to_start=True,
    needs=("skorch",),
)

OF_LIBRARIES["stable-baselines3"] = Cell(
    """
agent.learn(total_timesteps=48, callback=callback)
weights, rewards = agent.policy.state_dict(), callback.rewards
""",
    before=BEGIN
    + """
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

class Rewards(BaseCallback):
    def __init__(self):
        super().__init__()
        self.rewards = []

    def _on_step(self):
        self.rewards.append(float(self.locals["rewards"][0]))
        return True

callback = Rewards()
small = {"net_arch": [8]}
agent = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, n_epochs=2, seed=5, device="cpu", policy_kwargs=small)
""",
    slow_to_start=True,
    needs=("stable_baselines3",),
)

OF_LIBRARIES["optuna"] = Cell(
    """
study.optimize(objective, n_trials=3)
values, parameters = [one.value for one in study.trials], [one.params for one in study.trials]
""",
    before=BEGIN
    + DATA
    + """
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))

def objective(trial):
    rate = trial.suggest_float("lr", 1e-3, 1e-1, log=True)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for epoch in range(2):
        for x, y in DataLoader(Noisy(), batch_size=8, shuffle=True):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        trial.report(loss.item(), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return loss.item()
""",
    slow_to_start=True,
    needs=("optuna",),
)

OF_LIBRARIES["a pool"] = Cell(
    """
for epoch in range(3):
    futures = [pool.submit(pow, 2, n) for n in range(4)]
    total = sum(one.result() for one in futures)
    del futures
    for x in torch.randn(3, 2):
        say(epoch, total, x.sum())
pool = type(pool).__name__, pool._max_workers
""",
    before=BEGIN
    + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
""",
    puts_off=True,
)
