# needs: stable_baselines3, gymnasium
"""stable-baselines3: PPO on an environment of the notebook, with a callback class."""
import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import set_random_seed

set_random_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
class Walk(gym.Env):
    """Walk to the right end of a line."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return self._obs(), {}

    def _obs(self):
        return np.array([self.x, self.t / 25], np.float32)

    def step(self, action):
        self.t += 1
        self.x = float(np.clip(self.x + (0.1 if action else -0.1) + 0.02 * self.np_random.standard_normal(), -1, 1))
        return self._obs(), self.x, self.x >= 1, self.t >= 25, {}


class Rewards(BaseCallback):
    def __init__(self):
        super().__init__()
        self.kept = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.kept.append(round(float(self.model.rollout_buffer.rewards.mean()), 4))


# %%
env, rewards = Walk(), Rewards()
model = PPO("MlpPolicy", env, n_steps=128, batch_size=32, n_epochs=4, seed=0, device=device, verbose=0)

# %% train
model.learn(total_timesteps=768, callback=rewards)

# %%
print(model.num_timesteps, rewards.kept)
