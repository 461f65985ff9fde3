# needs: gymnasium
"""Actor-critic on gymnasium's CartPole, with an environment registered by the notebook itself."""
from collections import namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])
torch.manual_seed(2)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
class Bandit(gym.Env):
    """Ten steps of choosing what the observation shows."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._look(), {}

    def _look(self):
        self.best = int(self.np_random.integers(4))
        seen = 0.3 * self.np_random.standard_normal(4).astype(np.float32)
        seen[self.best] += 0.7
        return seen.clip(-1, 1)

    def step(self, action):
        reward, self.t = float(action == self.best), self.t + 1
        return self._look(), reward, self.t >= 10, False, {}


gym.register("Shown-v0", entry_point=Bandit, max_episode_steps=10)

# %%
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 64)
        self.action_head, self.value_head = nn.Linear(64, 4), nn.Linear(64, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def finish_episode(gamma=0.5):
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns, device=device)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved_actions, returns):
        policy_losses.append(-log_prob * (R - value.item()))
        value_losses.append(F.smooth_l1_loss(value, R.reshape(1)))
    optimizer.zero_grad()
    (torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()).backward()
    optimizer.step()
    del model.rewards[:], model.saved_actions[:]


# %% train
env = gym.make("Shown-v0")
state, _ = env.reset(seed=5)
rewards = []
for episode in range(150):
    done, total = False, 0.0
    while not done:
        probs, value = model(torch.from_numpy(state).float().to(device))
        m = Categorical(probs)
        action = m.sample()
        model.saved_actions.append(SavedAction(m.log_prob(action), value))
        state, reward, terminated, truncated, _ = env.step(action.item())
        model.rewards.append(reward)
        total, done = total + reward, terminated or truncated
    finish_episode()
    rewards.append(total)
    if episode % 50 == 49:
        print(f"{episode}: {np.mean(rewards[-50:]):.2f}")
    state, _ = env.reset()
env.close()

# %%
print(gym.spec("Shown-v0").max_episode_steps, np.mean(rewards[:30]) < np.mean(rewards[-30:]))
