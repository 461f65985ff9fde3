# needs: lightning
"""Lightning: a module and a data module in earlier cells, callbacks, the trainer fits."""
import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(7)

# %%
class LitAutoEncoder(L.LightningModule):
    def __init__(self, width=32, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 3))
        self.decoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 64))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)}


class Record(Callback):
    def __init__(self):
        self.seen = []

    def on_validation_end(self, trainer, module):
        self.seen.append(round(trainer.callback_metrics["val_loss"].item(), 5))


# %%
data = torch.randn(512, 3) @ torch.randn(3, 64)
train_loader = DataLoader(TensorDataset(data[:448]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(data[448:]), batch_size=64)
autoencoder, record = LitAutoEncoder(), Record()
trainer = L.Trainer(
    max_epochs=20, callbacks=[record, EarlyStopping("val_loss", patience=3)], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
)

# %% train
trainer.fit(model=autoencoder, train_dataloaders=train_loader, val_dataloaders=val_loader)

# %%
print(trainer.current_epoch, record.seen[-1] < record.seen[0])
