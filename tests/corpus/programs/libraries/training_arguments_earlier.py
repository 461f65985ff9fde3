# needs: transformers, accelerate
"""A causal language model: TrainingArguments and a callback earlier, the Trainer made where it trains."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

torch.manual_seed(0)
training_args = TrainingArguments(
    "gpt", max_steps=40, per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=5e-3,
    lr_scheduler_type="cosine", warmup_steps=5, logging_steps=10, save_strategy="no", report_to=[], disable_tqdm=True,
)

# %%
text = "to be or not to be that is the question " * 60
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
train_dataset = [{"input_ids": ids[i : i + 24]} for i in range(0, len(ids) - 24, 12)]


def collate(rows):
    x = torch.stack([r["input_ids"] for r in rows])
    return {"input_ids": x, "labels": x.clone()}


class Keep(TrainerCallback):
    def __init__(self):
        self.losses = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append((state.global_step, round(logs["loss"], 4)))


# %%
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(chars), n_positions=24, n_embd=32, n_layer=2, n_head=2))
keep = Keep()

# %% train
trainer = Trainer(model=model, args=training_args, train_dataset=train_dataset, data_collator=collate, callbacks=[keep])
trainer.train()

# %%
print(keep.losses)
