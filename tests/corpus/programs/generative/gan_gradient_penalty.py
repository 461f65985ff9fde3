"""A WGAN with gradient penalty: a derivative of a derivative, five critic steps to one, data without end."""
import itertools

import torch
from torch import autograd, nn

torch.manual_seed(23)
cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
LAMBDA, CRITIC_ITERS, ITERS = 0.1, 5, 80

# %%
def mlp(i, o, width=64):
    return nn.Sequential(nn.Linear(i, width), nn.ReLU(True), nn.Linear(width, width), nn.ReLU(True), nn.Linear(width, o))


def inf_train_gen(batch=128):
    """Eight Gaussians on a circle, for ever."""
    angles = torch.arange(8) * torch.pi / 4
    centres = 2 * torch.stack([angles.cos(), angles.sin()], 1)
    while True:
        yield (centres[torch.randint(0, 8, (batch,))] + 0.02 * torch.randn(batch, 2)) / 1.414


def calc_gradient_penalty(netD, real_data, fake_data):
    alpha = torch.rand(real_data.size(0), 1, device=device).expand(real_data.size())
    interpolates = (alpha * real_data + (1 - alpha) * fake_data).requires_grad_(True)
    out = netD(interpolates)
    gradients = autograd.grad(
        outputs=out, inputs=interpolates, grad_outputs=torch.ones_like(out), create_graph=True, retain_graph=True
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


# %%
netG, netD = mlp(2, 2).to(device), mlp(2, 1).to(device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))
data = inf_train_gen()
one = torch.tensor(1.0, device=device)

# %% train
history = []
for iteration in range(ITERS):
    for p in netD.parameters():
        p.requires_grad = True
    for real in itertools.islice(data, CRITIC_ITERS):
        real = real.to(device)
        netD.zero_grad()
        with torch.no_grad():
            fake = netG(torch.randn(len(real), 2, device=device))
        D_real, D_fake = netD(real).mean(), netD(fake).mean()
        D_real.backward(-one)
        D_fake.backward(one)
        gradient_penalty = calc_gradient_penalty(netD, real, fake)
        gradient_penalty.backward()
        Wasserstein_D = D_real - D_fake
        optimizerD.step()
    for p in netD.parameters():
        p.requires_grad = False
    netG.zero_grad()
    G = netD(netG(torch.randn(128, 2, device=device))).mean()
    G.backward(-one)
    optimizerG.step()
    history.append(Wasserstein_D.item())
    if iteration % 20 == 19:
        print(f"{iteration + 1}: distance {history[-1]:.4f}, penalty {gradient_penalty.item():.4f}")

# %%
print(len(history), all(not p.requires_grad for p in netD.parameters()))
