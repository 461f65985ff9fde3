"""PPO in one file: vectorised toy environments, GAE, minibatches, annealed rate, in the manner of single-file RL."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical

@dataclass
class Args:
    seed: int = 1
    num_envs: int = 8
    num_steps: int = 32
    update_epochs: int = 3
    num_minibatches: int = 4
    iterations: int = 24
    gamma: float = 0.97
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    learning_rate: float = 2e-3

args = Args()
np.random.seed(args.seed)
torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class Chases:
    """A point follows a target on a line; many at once."""

    def __init__(self, n):
        self.n, self.gap = n, np.random.randn(n)

    def step(self, actions):
        self.gap += np.where(actions == 2, -0.3, np.where(actions == 0, 0.3, 0.0)) + 0.1 * np.random.randn(self.n)
        reward, done = -np.abs(self.gap), np.abs(self.gap) > 3
        self.gap[done] = np.random.randn(done.sum())
        return self.obs(), reward, done

    def obs(self):
        return np.stack([self.gap, np.sign(self.gap)], 1).astype(np.float32)


def layer_init(layer, std=np.sqrt(2)):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(2, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(2, 32)), nn.Tanh(), layer_init(nn.Linear(32, 3), std=0.01))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


envs, agent = Chases(args.num_envs), Agent().to(device)
optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
shape = (args.num_steps, args.num_envs)
obs = torch.zeros(shape + (2,)).to(device)
actions, logprobs, rewards, dones, values = (torch.zeros(shape).to(device) for _ in range(5))

# %% train
next_obs, next_done = torch.Tensor(envs.obs()).to(device), torch.zeros(args.num_envs).to(device)
for iteration in range(1, args.iterations + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / args.iterations) * args.learning_rate
    for step in range(args.num_steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        o, r, d = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(r).to(device).view(-1)
        next_obs, next_done = torch.Tensor(o).to(device), torch.Tensor(d).to(device)
    with torch.no_grad():
        next_value, lastgaelam = agent.critic(next_obs).reshape(1, -1), 0
        advantages = torch.zeros_like(rewards).to(device)
        for t in reversed(range(args.num_steps)):
            nonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
            nextvalues = next_value if t == args.num_steps - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nonterminal * lastgaelam
        returns = advantages + values
    b_obs, b_actions, b_logprobs = obs.reshape(-1, 2), actions.reshape(-1), logprobs.reshape(-1)
    b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
    b_inds = np.arange(args.num_steps * args.num_envs)
    for epoch in range(args.update_epochs):
        np.random.shuffle(b_inds)
        for mb_inds in np.array_split(b_inds, args.num_minibatches):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
            ratio = (newlogprob - b_logprobs[mb_inds]).exp()
            adv = b_advantages[mb_inds]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.25 * ((newvalue.view(-1) - b_returns[mb_inds]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(f"iteration {iteration}: reward {rewards.mean().item():.3f}")

# %%
print(f"{returns.mean().item():.3f}")
