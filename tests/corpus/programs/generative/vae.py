"""A variational autoencoder, with argparse read from a sys.argv that an earlier cell set."""
import argparse
import sys

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

sys.argv = ["vae.py", "--batch-size", "64", "--epochs", "8", "--seed", "4"]

# %%
parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(args.seed)
device = torch.device("cuda" if args.cuda else "cpu")

# %%
prototypes = torch.rand(10, 400)
images = (prototypes[torch.randint(0, 10, (1024,))] * 0.8 + 0.2 * torch.rand(1024, 400)).view(-1, 1, 20, 20)
train_loader = torch.utils.data.DataLoader(images, batch_size=args.batch_size, shuffle=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(400, 200)
        self.fc21, self.fc22 = nn.Linear(200, 20), nn.Linear(200, 20)
        self.fc3, self.fc4 = nn.Linear(20, 200), nn.Linear(200, 400)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 400))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 400), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


# %% train
for epoch in range(1, args.epochs * 4 + 1):
    model.train()
    train_loss = 0
    for batch_idx, data in enumerate(train_loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    if epoch % 8 == 0:
        print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.4f}")
    with torch.no_grad():
        sample = model.decode(torch.randn(8, 20).to(device)).cpu()

# %%
print(sample.shape, f"{sample.mean().item():.3f}")
