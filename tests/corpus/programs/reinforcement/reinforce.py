"""REINFORCE on a hand-made pole, episodes in a function, a running reward and a break."""
import math
from collections import deque
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(543)
np.random.seed(543)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
gamma, eps = 0.99, np.finfo(np.float32).eps.item()

# %%
class Pole:
    """A cart and a pole, by Euler's method."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.s = self.rng.uniform(-0.05, 0.05, 4)
        return self.s.astype(np.float32)

    def step(self, action):
        x, v, a, w = self.s
        force = 10.0 if action else -10.0
        temp = (force + 0.05 * w**2 * math.sin(a)) / 1.1
        dw = (9.8 * math.sin(a) - math.cos(a) * temp) / (0.5 * (4 / 3 - 0.1 * math.cos(a) ** 2 / 1.1))
        dv = temp - 0.05 * dw * math.cos(a) / 1.1
        self.s = self.s + 0.02 * np.array([v, dv, w, dw])
        return self.s.astype(np.float32), 1.0, abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.21


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(4, 64), nn.Dropout(p=0.3), nn.Linear(64, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return torch.softmax(self.affine2(torch.relu(self.dropout(self.affine1(x)))), dim=1)


env, policy = Pole(1), Policy().to(device)
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    m = Categorical(policy(torch.from_numpy(state).float().unsqueeze(0).to(device)))
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R, returns = 0, deque()
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns, device=device)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    optimizer.zero_grad()
    torch.cat([-lp * R for lp, R in zip(policy.saved_log_probs, returns)]).sum().backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


# %% train
running_reward = 10
for i_episode in count(1):
    state, ep_reward = env.reset(), 0
    for t in range(1, 200):
        state, reward, done = env.step(select_action(state))
        policy.rewards.append(reward)
        ep_reward += reward
        if done:
            break
    running_reward = 0.05 * ep_reward + 0.95 * running_reward
    finish_episode()
    if i_episode % 10 == 0:
        print(f"Episode {i_episode}\tLast reward: {ep_reward:.2f}\tAverage reward: {running_reward:.2f}")
    if running_reward > 60 or i_episode >= 80:
        break

# %%
print(i_episode, round(running_reward, 2))
