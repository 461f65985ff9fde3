"""A character RNN fed one letter at a time, after the name-classification tutorial."""
import math
import random
import string
import time

import torch
import torch.nn as nn

random.seed(5)
torch.manual_seed(5)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
all_letters = string.ascii_letters + " .,;'-"
n_letters = len(all_letters)

# %%
syllables = {"North": ["sven", "olaf", "berg", "sson"], "South": ["mar", "gio", "lini", "ella"], "East": ["ko", "mi", "ya", "ta"]}
category_lines = {c: ["".join(random.choices(s, k=3)).title() for _ in range(40)] for c, s in syllables.items()}
all_categories = list(category_lines)


def lineToTensor(line):
    tensor = torch.zeros(len(line), 1, n_letters, device=device)
    for li, letter in enumerate(line):
        tensor[li][0][all_letters.find(letter)] = 1
    return tensor


def randomTrainingExample():
    category = random.choice(all_categories)
    line = random.choice(category_lines[category])
    target = torch.tensor([all_categories.index(category)], dtype=torch.long, device=device)
    return category, line, target, lineToTensor(line)


# %%
class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.h2o(hidden)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size, device=device)


rnn = RNN(n_letters, 64, len(all_categories)).to(device)
criterion = nn.NLLLoss()
learning_rate = 0.01


def train(category_tensor, line_tensor):
    hidden = rnn.initHidden()
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return output, loss.item()


# %% train
n_iters, print_every, plot_every = 1500, 300, 100
current_loss, all_losses = 0, []
start = time.time()
for iter in range(1, n_iters + 1):
    category, line, category_tensor, line_tensor = randomTrainingExample()
    output, loss = train(category_tensor, line_tensor)
    current_loss += loss
    if iter % print_every == 0:
        guess = all_categories[output.topk(1)[1][0].item()]
        print(f"{iter} {iter / n_iters:.0%} {loss:.4f} {line} / {guess} {'ok' if guess == category else category}")
    if iter % plot_every == 0:
        all_losses.append(current_loss / plot_every)
        current_loss = 0
minutes = math.floor((time.time() - start) / 60)

# %%
print([round(x, 2) for x in all_losses], minutes >= 0)
