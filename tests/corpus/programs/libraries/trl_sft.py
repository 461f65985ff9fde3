# needs: trl, transformers, datasets, peft, tokenizers
"""TRL's SFTTrainer with LoRA on a tiny Llama, its tokenizer and its data set made here."""
import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(9)

# %%
words = [f"w{i}" for i in range(30)]
vocab = {w: i for i, w in enumerate(["<pad>", "<unk>", "<s>", "</s>", *words])}
raw = Tokenizer(WordLevel(vocab, unk_token="<unk>"))
raw.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
)
starts = torch.randint(0, 30, (64,)).tolist()
dataset = Dataset.from_dict({"text": [" ".join(words[(s + 2 * k) % 30] for k in range(10)) for s in starts]})

# %%
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(vocab), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, pad_token_id=0, bos_token_id=2, eos_token_id=3,
    )
)
args = SFTConfig(
    output_dir="sft", max_steps=24, per_device_train_batch_size=8, learning_rate=1e-2, max_length=32, logging_steps=8,
    report_to="none", save_strategy="no", disable_tqdm=True, bf16=False, gradient_checkpointing=False, seed=2,
)

# %% train
trainer = SFTTrainer(
    model=model, args=args, train_dataset=dataset, processing_class=tokenizer,
    peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
trainer.train()
losses = [round(row["loss"], 4) for row in trainer.state.log_history if "loss" in row]

# %%
print(losses)
