# needs: sentence_transformers, transformers, tokenizers
"""sentence-transformers over a tiny BERT with a word tokenizer made here; a contrastive loss, smart batching by hand."""
import random

import torch
from sentence_transformers import SentenceTransformer, losses, models
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

random.seed(1)
torch.manual_seed(1)

# %%
words = "red blue green small large cat dog bird runs sleeps sings".split()
vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
raw = Tokenizer(WordLevel(vocab, unk_token="[UNK]"))
raw.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", model_max_length=16
)
bert = BertModel(
    BertConfig(vocab_size=len(vocab), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
)
bert.save_pretrained("tiny")
tokenizer.save_pretrained("tiny")
word = models.Transformer("tiny", max_seq_length=16)
model = SentenceTransformer(modules=[word, models.Pooling(32)])

# %%
def phrase():
    a, b, c = random.choice(words[:3]), random.choice(words[5:8]), random.choice(words[8:])
    return f"{a} {b} {c}", f"{b} {c} {a}"


pairs = [phrase() for _ in range(160)]
loss_function = losses.MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

# %% train
history = []
for epoch in range(6):
    random.shuffle(pairs)
    for start in range(0, len(pairs), 16):
        left, right = zip(*pairs[start : start + 16])
        features = [{k: v.to(model.device) if torch.is_tensor(v) else v for k, v in model.tokenize(list(side)).items()} for side in (left, right)]
        loss = loss_function(features, torch.zeros(16, device=model.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print(f"{epoch}: {sum(history[-10:]) / 10:.4f}")

# %%
print(model.encode(["red cat runs"], show_progress_bar=False).shape)
