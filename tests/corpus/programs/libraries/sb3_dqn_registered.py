# needs: stable_baselines3, gymnasium
"""stable-baselines3: DQN on CartPole by its name, monitored, evaluated and saved."""
import gymnasium as gym
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

torch.manual_seed(1)
env = Monitor(gym.make("CartPole-v1"))
policy_kwargs = dict(net_arch=[32, 32], activation_fn=torch.nn.Tanh)

# %%
model = DQN(
    "MlpPolicy", env, learning_rate=1e-3, buffer_size=2000, learning_starts=100, target_update_interval=50,
    policy_kwargs=policy_kwargs, seed=4, verbose=0,
)
marks = []

# %% train
for block in range(3):
    model.learn(total_timesteps=500, reset_num_timesteps=False, progress_bar=False)
    mean_reward, std_reward = evaluate_policy(model, env, n_eval_episodes=2)
    marks.append(round(float(mean_reward), 1))
    print(f"{model.num_timesteps}: {mean_reward:.1f}")
model.save("dqn_cartpole")

# %%
again = DQN.load("dqn_cartpole")
print(len(marks), again.num_timesteps)
