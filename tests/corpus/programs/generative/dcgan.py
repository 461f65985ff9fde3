"""DCGAN: two networks, two Adams, weights initialised by apply(), a fixed noise and images kept on the way."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

manualSeed = 999
random.seed(manualSeed)
torch.manual_seed(manualSeed)
nz, ngf, ndf, nc, batch_size, num_epochs, lr, beta1 = 16, 8, 8, 1, 32, 12, 0.0002, 0.5
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

# %%
gen = torch.Generator().manual_seed(0)
dataset = torch.utils.data.TensorDataset(torch.tanh(torch.randn(256, nc, 16, 16, generator=gen).cumsum(-1) / 4))
dataloader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
    nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False), nn.Tanh(),
).to(device)
netD = nn.Sequential(
    nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
).to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
fixed_noise = torch.randn(9, nz, 1, 1, device=device)
real_label, fake_label = 1.0, 0.0
optimizerD = optim.Adam(netD.parameters(), lr=lr, betas=(beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=lr, betas=(beta1, 0.999))

# %% train
img_list, G_losses, D_losses, iters = [], [], [], 0
print("Starting Training Loop...")
for epoch in range(num_epochs):
    for i, data in enumerate(dataloader, 0):
        netD.zero_grad()
        real_cpu = data[0].to(device)
        label = torch.full((real_cpu.size(0),), real_label, dtype=torch.float, device=device)
        errD_real = criterion(netD(real_cpu).view(-1), label)
        errD_real.backward()
        noise = torch.randn(real_cpu.size(0), nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(fake_label)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(real_label)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        if i % 4 == 0:
            print(f"[{epoch}/{num_epochs}][{i}/{len(dataloader)}]\tLoss_D: {errD.item():.4f}\tLoss_G: {errG.item():.4f}")
        G_losses.append(errG.item())
        D_losses.append(errD.item())
        if (iters % 20 == 0) or ((epoch == num_epochs - 1) and (i == len(dataloader) - 1)):
            with torch.no_grad():
                img_list.append(netG(fixed_noise).detach().cpu())
        iters += 1

# %%
print(len(img_list), np.mean(G_losses[-5:]).round(3))
