"""Skip-gram with negative sampling: pairs from a generator, a noise table, two embeddings, SparseAdam."""
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
rng = np.random.RandomState(19)
device = "cuda" if torch.cuda.is_available() else "cpu"
EMBED, WINDOW, NEGATIVE = 24, 2, 5

# %%
topics = [["king", "queen", "crown", "throne"], ["fish", "sea", "boat", "net"], ["bread", "oven", "flour", "salt"]]
corpus = [w for _ in range(400) for w in rng.choice(topics[rng.randint(3)], 5)]
counts = Counter(corpus)
vocab = {w: i for i, (w, _) in enumerate(counts.most_common())}
freq = np.array([counts[w] for w in vocab]) ** 0.75
noise = torch.tensor(freq / freq.sum(), dtype=torch.float)
ids = np.array([vocab[w] for w in corpus])


def pairs(batch_size):
    centre, context = [], []
    for i in rng.permutation(len(ids)):
        for j in range(max(0, i - WINDOW), min(len(ids), i + WINDOW + 1)):
            if i != j:
                centre.append(ids[i])
                context.append(ids[j])
        if len(centre) >= batch_size:
            yield torch.as_tensor(np.array(centre)), torch.as_tensor(np.array(context))
            centre, context = [], []


# %%
class SkipGram(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.inner = nn.Embedding(n, dim, sparse=True)
        self.outer = nn.Embedding(n, dim, sparse=True)
        nn.init.uniform_(self.inner.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.outer.weight)

    def forward(self, centre, context, negative):
        v = self.inner(centre)
        good = F.logsigmoid((v * self.outer(context)).sum(1))
        bad = F.logsigmoid(-torch.bmm(self.outer(negative), v.unsqueeze(2)).squeeze(2)).sum(1)
        return -(good + bad).mean()


model = SkipGram(len(vocab), EMBED).to(device)
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)

# %% train
for epoch in range(24):
    total = n = 0
    for centre, context in pairs(256):
        negative = torch.multinomial(noise, len(centre) * NEGATIVE, replacement=True).view(-1, NEGATIVE)
        loss = model(centre.to(device), context.to(device), negative.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, n = total + loss.item(), n + 1
    if epoch % 6 == 5:
        print(f"epoch {epoch + 1}: {total / n:.4f} over {n} batches")

# %%
vectors = F.normalize(model.inner.weight.detach().cpu(), dim=1)
near = (vectors @ vectors[vocab["king"]]).topk(4).indices.tolist()
print(sorted(w for w, i in vocab.items() if i in near))
