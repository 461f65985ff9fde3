# needs: transformers, accelerate
"""transformers' Trainer, made in an earlier cell; the training cell only calls train()."""
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(42)

# %%
class Tokens(Dataset):
    def __init__(self, n):
        self.ids = torch.randint(5, 60, (n, 12))
        self.labels = (self.ids[:, 0] > 30).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": self.labels[i]}


config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(config)


def compute_metrics(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


# %%
args = TrainingArguments(
    output_dir="out", num_train_epochs=3, per_device_train_batch_size=8, learning_rate=3e-3, logging_steps=10,
    eval_strategy="epoch", save_strategy="no", report_to="none", disable_tqdm=True, seed=1,
)
trainer = Trainer(model=model, args=args, train_dataset=Tokens(128), eval_dataset=Tokens(32), compute_metrics=compute_metrics)

# %% train
result = trainer.train()

# %%
print(result.global_step, round(result.training_loss, 4))
print({k: round(v, 3) for k, v in trainer.evaluate().items() if k in ("eval_loss", "eval_accuracy")})
