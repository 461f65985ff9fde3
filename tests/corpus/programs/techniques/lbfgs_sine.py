"""LBFGS with a closure: LSTM cells predict sine waves in double precision."""
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

np.random.seed(2)
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
phase = np.random.randint(-40, 40, 12).reshape(12, 1)
waves = np.sin((np.arange(60) + phase) / 8.0).astype("float64")
input = torch.from_numpy(waves[3:, :-1]).to(device)
target = torch.from_numpy(waves[3:, 1:]).to(device)
test_input = torch.from_numpy(waves[:3, :-1]).to(device)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 24)
        self.linear = nn.Linear(24, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 24, dtype=torch.double, device=input.device)
        c_t = torch.zeros_like(h_t)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        return torch.cat(outputs, dim=1)


seq = Sequence().double().to(device)
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=12)

# %% train
for i in range(3):
    print("STEP: ", i)

    def closure():
        optimizer.zero_grad()
        out = seq(input)
        loss = criterion(out, target)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    with torch.no_grad():
        pred = seq(test_input, future=20)
        print(f"loss: {loss.item():.6f}")
        y = pred.detach().cpu().numpy()

# %%
print(y.shape, seq(input).dtype)
