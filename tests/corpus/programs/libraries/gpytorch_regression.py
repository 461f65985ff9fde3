# needs: gpytorch
"""An exact Gaussian process with gpytorch: hyperparameters by Adam, predictions afterwards."""
import math

import gpytorch
import torch

torch.manual_seed(15)
train_x = torch.linspace(0, 1, 80)
train_y = torch.sin(train_x * (2 * math.pi)) + torch.randn(train_x.size()) * math.sqrt(0.04)

# %%
class ExactGPModel(gpytorch.models.ExactGP):
    def __init__(self, train_x, train_y, likelihood):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = ExactGPModel(train_x, train_y, likelihood)
if torch.cuda.is_available():
    train_x, train_y, model, likelihood = train_x.cuda(), train_y.cuda(), model.cuda(), likelihood.cuda()

# %%
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
training_iter = 300

# %% train
for i in range(training_iter):
    optimizer.zero_grad()
    output = model(train_x)
    loss = -mll(output, train_y)
    loss.backward()
    if i % 100 == 99:
        scale = model.covar_module.base_kernel.lengthscale.item()
        print(f"Iter {i + 1}/{training_iter} - Loss: {loss.item():.3f} lengthscale: {scale:.3f} noise: {likelihood.noise.item():.3f}")
    optimizer.step()

# %%
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    print(f"{likelihood(model(torch.linspace(0, 1, 5).to(train_x.device))).mean.std().item():.2f}")
