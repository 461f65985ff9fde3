"""nn.TransformerEncoder with padding masks: a vocabulary by hand, a collate function with pad_sequence, NoamLR by LambdaLR."""
import math
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

random.seed(3)
torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
good, bad, plain = "fine great lovely warm".split(), "dull cold awful grey".split(), "the a film was and scene".split()


def sentence():
    label = random.randint(0, 1)
    words = random.choices(plain, k=random.randint(4, 16)) + random.choices(good if label else bad, k=2)
    random.shuffle(words)
    return label, " ".join(words)


train_iter = [sentence() for _ in range(320)]
vocab = {"<pad>": 0} | {w: i for i, w in enumerate(sorted(set(good + bad + plain)), 1)}
text_pipeline = lambda text: torch.tensor([vocab[w] for w in text.split()])


def collate_batch(batch):
    labels = torch.tensor([label for label, _ in batch])
    return labels.to(device), pad_sequence([text_pipeline(t) for _, t in batch], batch_first=True).to(device)


dataloader = DataLoader(train_iter, batch_size=16, shuffle=True, collate_fn=collate_batch)

# %%
class PositionalEncoding(nn.Module):
    def __init__(self, d, length=64):
        super().__init__()
        pe, pos = torch.zeros(length, d), torch.arange(length).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Classifier(nn.Module):
    def __init__(self, vocab_size, d=32):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab_size, d, padding_idx=0), PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d, 2)

    def forward(self, x):
        mask = x == 0
        h = self.encoder(self.pos(self.embed(x)), src_key_padding_mask=mask)
        return self.head(h.masked_fill(mask.unsqueeze(-1), 0).sum(1) / (~mask).sum(1, keepdim=True))


model = Classifier(len(vocab)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 20**-1.5))

# %% train
for epoch in range(6):
    total_acc, total_count = 0, 0
    for idx, (label, text) in enumerate(dataloader):
        optimizer.zero_grad()
        predicted = model(text)
        loss = nn.functional.cross_entropy(predicted, label)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        scheduler.step()
        total_acc += (predicted.argmax(1) == label).sum().item()
        total_count += label.size(0)
    print(f"| epoch {epoch:3d} | accuracy {total_acc / total_count:8.3f} | lr {scheduler.get_last_lr()[0]:.5f}")

# %%
model.eval()
with torch.no_grad():
    print(model(text_pipeline("the film was great and warm").unsqueeze(0).to(device)).argmax(1).item())
