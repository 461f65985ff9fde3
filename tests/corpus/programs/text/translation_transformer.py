"""nn.Transformer on a toy translation: causal masks, a bucketing batch sampler, label smoothing, greedy decoding."""
import random

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler

random.seed(29)
torch.manual_seed(29)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAD, BOS, EOS, SIZE = 0, 1, 2, 20

# %%
class Pairs(Dataset):
    def __init__(self, n):
        self.src = [[random.randint(3, SIZE - 1) for _ in range(random.randint(3, 9))] for _ in range(n)]

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        return self.src[i], [BOS, *sorted(self.src[i]), EOS]


class ByLength(Sampler):
    def __init__(self, data, batch):
        self.data, self.batch = data, batch

    def __len__(self):
        return -(-len(self.data) // self.batch)

    def __iter__(self):
        order = sorted(range(len(self.data)), key=lambda i: (len(self.data.src[i]), random.random()))
        batches = list(BatchSampler(order, self.batch, drop_last=False))
        random.shuffle(batches)
        yield from batches


def collate(batch):
    def pad(rows):
        width = max(map(len, rows))
        return torch.tensor([r + [PAD] * (width - len(r)) for r in rows])

    return pad([s for s, _ in batch]), pad([t for _, t in batch])


data = Pairs(320)
loader = DataLoader(data, batch_sampler=ByLength(data, 32), collate_fn=collate)

# %%
class Seq2Seq(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(SIZE, d), nn.Embedding(16, d)
        self.core = nn.Transformer(d, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(d, SIZE)

    def embed(self, x):
        return self.tok(x) + self.pos(torch.arange(x.size(1), device=x.device))

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), device=tgt.device)
        out = self.core(
            self.embed(src), self.embed(tgt), tgt_mask=mask, src_key_padding_mask=(src == PAD).float() * -1e9,
            tgt_key_padding_mask=(tgt == PAD).float() * -1e9,
        )
        return self.generator(out)


model = Seq2Seq().to(DEVICE)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)


def train_epoch(model, optimizer):
    model.train()
    losses = 0
    for src, tgt in loader:
        src, tgt = src.to(DEVICE), tgt.to(DEVICE)
        logits = model(src, tgt[:, :-1])
        optimizer.zero_grad()
        loss = loss_fn(logits.reshape(-1, SIZE), tgt[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses += loss.item()
    return losses / len(loader)


# %% train
NUM_EPOCHS = 10
for epoch in range(1, NUM_EPOCHS + 1):
    train_loss = train_epoch(model, optimizer)
    print(f"Epoch: {epoch}, Train loss: {train_loss:.3f}")

# %%
src, out = torch.tensor([[9, 4, 15]], device=DEVICE), torch.tensor([[BOS]], device=DEVICE)
for _ in range(4):
    out = torch.cat([out, model(src, out)[:, -1:].argmax(-1)], 1)
print(out.tolist())
