# needs: transformers, accelerate
"""The course's loop: an Accelerator prepares everything, get_scheduler, tqdm, gather for metrics, unwrap at the end."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim import AdamW
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import DistilBertConfig, DistilBertForSequenceClassification, get_scheduler

set_seed(3)
accelerator = Accelerator(gradient_accumulation_steps=2)

# %%
rows = [{"input_ids": torch.randint(1, 50, (10,)), "labels": torch.tensor(i % 2)} for i in range(120)]
for row in rows:
    row["input_ids"][0] = 40 + int(row["labels"]) * 5
train_dataloader = DataLoader(rows[:96], shuffle=True, batch_size=8)
eval_dataloader = DataLoader(rows[96:], batch_size=8)
model = DistilBertForSequenceClassification(DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=2, hidden_dim=64))
optimizer = AdamW(model.parameters(), lr=3e-3)

# %%
train_dataloader, eval_dataloader, model, optimizer = accelerator.prepare(
    train_dataloader, eval_dataloader, model, optimizer
)
num_epochs = 10
num_training_steps = num_epochs * len(train_dataloader)
lr_scheduler = get_scheduler("linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=num_training_steps)

# %% train
progress_bar = tqdm(range(num_training_steps))
for epoch in range(num_epochs):
    model.train()
    for batch in train_dataloader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
        progress_bar.update(1)
    model.eval()
    samples_seen = correct = 0
    for batch in eval_dataloader:
        with torch.no_grad():
            predictions = model(**batch).logits.argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, batch["labels"]))
        correct += (predictions == references).sum().item()
        samples_seen += len(references)
    accelerator.print(f"epoch {epoch}: {loss.item():.4f}, {correct / samples_seen:.3f}")
accelerator.wait_for_everyone()
unwrapped_model = accelerator.unwrap_model(model)

# %%
print(type(unwrapped_model).__name__, samples_seen)
