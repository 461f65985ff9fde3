"""A physics-informed network: second derivatives by autograd.grad, Adam first and LBFGS after."""
import torch
from torch import nn

torch.manual_seed(123)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
d, w0 = 2, 10
mu, k = 2 * d, w0**2

# %%
class FCN(nn.Module):
    """A fully connected network."""

    def __init__(self, n_in, n_out, width, depth):
        super().__init__()
        self.fcs = nn.Sequential(nn.Linear(n_in, width), nn.Tanh())
        self.fch = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth - 1)])
        self.fce = nn.Linear(width, n_out)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))


def oscillator(t):
    w = (w0**2 - d**2) ** 0.5
    phi = torch.atan(torch.tensor(-d / w))
    return torch.exp(-d * t) * torch.cos(phi + w * t) / torch.cos(phi)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


t_data = torch.linspace(0, 0.4, 10, device=device).view(-1, 1)
u_data = oscillator(t_data)
t_physics = torch.linspace(0, 1, 30, device=device).view(-1, 1).requires_grad_(True)
pinn = FCN(1, 1, 32, 3).to(device)


def loss_fn():
    data = torch.mean((pinn(t_data) - u_data) ** 2)
    u = pinn(t_physics)
    du = derivative(u, t_physics)
    physics = torch.mean((derivative(du, t_physics) + mu * du + k * u) ** 2)
    return data + 1e-4 * physics, data.detach()


# %%
adam = torch.optim.Adam(pinn.parameters(), lr=1e-3)
lbfgs = torch.optim.LBFGS(pinn.parameters(), max_iter=10, line_search_fn="strong_wolfe")
trace = []

# %% train
for i in range(301):
    adam.zero_grad()
    loss, data = loss_fn()
    loss.backward()
    adam.step()
    if i % 100 == 0:
        print(f"adam {i}: {loss.item():.5f} {data.item():.5f}")
    trace.append(loss.item())
for i in range(6):

    def closure():
        lbfgs.zero_grad()
        loss, _ = loss_fn()
        loss.backward()
        return loss

    trace.append(lbfgs.step(closure).item())
print(f"lbfgs: {trace[-1]:.5f}")

# %%
print(trace[-1] < trace[0], len(trace))
