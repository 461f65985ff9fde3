"""An LSTM language model with its hidden state carried, learning rate annealed, and the best model saved and loaded."""
import math

import torch
import torch.nn as nn

torch.manual_seed(1111)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class Corpus:
    def __init__(self, words, length):
        self.dictionary = {f"w{i}": i for i in range(words)}
        steps = torch.randint(1, 4, (length,))
        self.train = torch.cumsum(steps, 0) % words
        self.valid = torch.cumsum(torch.randint(1, 4, (length // 5,)), 0) % words


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous().to(device)


corpus = Corpus(50, 8000)
bptt, ntokens = 20, len(corpus.dictionary)
train_data, val_data = batchify(corpus.train, 20), batchify(corpus.valid, 10)

# %%
class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.2):
        super().__init__()
        self.drop, self.nlayers, self.nhid = nn.Dropout(dropout), nlayers, nhid
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight  # tied

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


model = RNNModel(ntokens, 48, 48, 2).to(device)
criterion = nn.CrossEntropyLoss()
lr, best_val_loss = 20.0, None


def evaluate(source):
    model.eval()
    total_loss, hidden = 0.0, model.init_hidden(10)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            total_loss += len(data) * criterion(output, targets).item()
    return total_loss / (len(source) - 1)


# %% train
try:
    for epoch in range(1, 11):
        model.train()
        total_loss, hidden = 0.0, model.init_hidden(20)
        for batch, i in enumerate(range(0, train_data.size(0) - 1, bptt)):
            data, targets = get_batch(train_data, i)
            model.zero_grad()
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-lr)
            total_loss += loss.item()
        val_loss = evaluate(val_data)
        print(f"| end of epoch {epoch} | valid loss {val_loss:5.2f} | valid ppl {math.exp(val_loss):8.2f}")
        if not best_val_loss or val_loss < best_val_loss:
            with open("model.pt", "wb") as f:
                torch.save(model, f)
            best_val_loss = val_loss
        else:
            lr /= 4.0
except KeyboardInterrupt:
    print("-" * 89)
    print("Exiting from training early")
with open("model.pt", "rb") as f:
    model = torch.load(f, weights_only=False)
    model.rnn.flatten_parameters()

# %%
print(f"best {best_val_loss:.3f}; tied: {model.decoder.weight is model.encoder.weight}")
