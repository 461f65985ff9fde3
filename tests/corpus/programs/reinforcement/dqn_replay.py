"""DQN with a replay memory of named tuples, a target network updated softly, and epsilon that decays."""
import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim

random.seed(31)
torch.manual_seed(31)
device = torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
BATCH_SIZE, GAMMA, EPS_START, EPS_END, EPS_DECAY, TAU, LR = 32, 0.95, 0.9, 0.05, 200, 0.01, 1e-3

# %%
class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class Corridor:
    def reset(self):
        self.at, self.t = 0, 0
        return [0.0, 0.0]

    def step(self, action):
        self.t += 1
        self.at = max(-3, self.at + (1 if action and random.random() < 0.9 else -1))
        return [self.at / 6, self.t / 40], 1.0 if self.at >= 6 else -0.02, self.at >= 6, self.t >= 40


def DQN():
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


# %%
env, memory = Corridor(), ReplayMemory(2000)
policy_net, target_net = DQN().to(device), DQN().to(device)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
steps_done, episode_durations = 0, []


def select_action(state):
    global steps_done
    threshold = EPS_END + (EPS_START - EPS_END) * math.exp(-1.0 * steps_done / EPS_DECAY)
    steps_done += 1
    if random.random() > threshold:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], device=device, dtype=torch.long)


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    mask = torch.tensor([s is not None for s in batch.next_state], device=device, dtype=torch.bool)
    non_final = torch.cat([s for s in batch.next_state if s is not None])
    values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        next_values[mask] = target_net(non_final).max(1).values
    loss = nn.SmoothL1Loss()(values, (next_values * GAMMA + torch.cat(batch.reward)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()


# %% train
for i_episode in range(20):
    state = torch.tensor(env.reset(), device=device).unsqueeze(0)
    while True:
        action = select_action(state)
        observation, reward, terminated, truncated = env.step(action.item())
        reward = torch.tensor([reward], device=device)
        next_state = None if terminated else torch.tensor(observation, device=device).unsqueeze(0)
        memory.push(state, action, next_state, reward)
        state = next_state
        optimize_model()
        target, source = target_net.state_dict(), policy_net.state_dict()
        for key in source:
            target[key] = source[key] * TAU + target[key] * (1 - TAU)
        target_net.load_state_dict(target)
        if terminated or truncated:
            episode_durations.append(env.t)
            break
print("Complete", episode_durations)

# %%
print(steps_done, len(memory), sum(episode_durations[-5:]) / 5)
