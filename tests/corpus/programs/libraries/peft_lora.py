# needs: peft, transformers
"""LoRA with peft around a tiny Llama, a loop by hand, only adapters trained."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(22)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
config = LlamaConfig(
    vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=32,
)
base = LlamaForCausalLM(config)
lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
model = get_peft_model(base, lora).to(device)
model.print_trainable_parameters()

# %%
sequences = (torch.arange(16)[None] * torch.randint(1, 4, (96, 1)) + torch.randint(0, 40, (96, 1))) % 40
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
frozen = base.get_input_embeddings().weight.detach().clone()

# %% train
model.train()
losses = []
for epoch in range(20):
    for batch in sequences[torch.randperm(96)].split(16):
        batch = batch.to(device)
        out = model(input_ids=batch, labels=batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.loss.item())
    print(f"epoch {epoch}: {sum(losses[-6:]) / 6:.4f}")
model.save_pretrained("adapter")

# %%
print(torch.equal(frozen.cpu(), base.get_input_embeddings().weight.detach().cpu()), losses[-1] < losses[0])
