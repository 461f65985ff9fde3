"""Sequence to sequence with attention: reversing numbers, teacher forcing by chance, two optimizers."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

random.seed(13)
torch.manual_seed(13)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SOS_token, EOS_token, VOCAB, MAX_LENGTH = 0, 1, 14, 8
teacher_forcing_ratio = 0.5

# %%
class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, input):
        return self.gru(self.embedding(input))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, encoder_outputs, hidden, target=None):
        token = torch.full((encoder_outputs.size(0), 1), SOS_token, device=device)
        outputs = []
        for i in range(MAX_LENGTH):
            context, _ = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
            output, hidden = self.gru(torch.cat((self.embedding(token), context), dim=2), hidden)
            output = self.out(output)
            outputs.append(output)
            token = target[:, i : i + 1] if target is not None else output.argmax(-1).detach()
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)


def batches(count, size=32):
    for _ in range(count):
        x = torch.randint(2, VOCAB, (size, MAX_LENGTH))
        yield x.to(device), x.flip(1).to(device)


# %%
encoder, decoder = EncoderRNN(VOCAB, 64).to(device), AttnDecoderRNN(64, VOCAB).to(device)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.003)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.003)
criterion = nn.NLLLoss()

# %% train
losses = []
for epoch in range(1, 6):
    total_loss = 0
    for input_tensor, target_tensor in batches(20):
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        encoder_outputs, encoder_hidden = encoder(input_tensor)
        forced = target_tensor if random.random() < teacher_forcing_ratio else None
        log_probs = decoder(encoder_outputs, encoder_hidden, forced)
        loss = criterion(log_probs.view(-1, VOCAB), target_tensor.reshape(-1))
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        total_loss += loss.item()
    losses.append(total_loss / 20)
    print(f"({epoch} {epoch / 5:.0%}) {losses[-1]:.4f}")

# %%
x, y = next(batches(1, 4))
print((decoder(*encoder(x)).argmax(-1) == y).float().mean().item())
