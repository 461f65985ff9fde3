"""Two libraries with trainers as ours expects them, small enough to be read: their own resume is exact."""

from __future__ import annotations

import py_compile
from pathlib import Path

TRANSFORMERS = """
import json, os
from types import SimpleNamespace

class Trainer:
    def __init__(self, callbacks):
        self.args = SimpleNamespace(output_dir="out", save_only_model=True, push_to_hub=True, save_total_limit=1)
        self.model = self.model_wrapped = {"w": 1}
        self.callback_handler = SimpleNamespace(callbacks=callbacks)

    def train(self, resume_from_checkpoint=None, *, steps):
        self.state = SimpleNamespace(global_step=0)
        if resume_from_checkpoint is not None:
            with open(os.path.join(resume_from_checkpoint, "state.json")) as file:
                self.state.global_step, self.model["w"] = json.load(file)
        while self.state.global_step < steps:
            self._tell("on_step_begin")
            self.model["w"] *= 3
            self.state.global_step += 1
            self._tell("on_step_end")
        return self.state.global_step

    def _tell(self, event):
        for one in self.callback_handler.callbacks:
            getattr(one, event)(self.args, self.state, None, model=self.model)

    def _save_checkpoint(self, model, trial):
        assert not self.args.push_to_hub and not self.args.save_only_model and self.args.save_total_limit is None
        directory = os.path.join(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        os.mkdir(directory)
        with open(os.path.join(directory, "state.json"), "w") as file:
            json.dump([self.state.global_step, model["w"]], file)
"""

CALLBACK = """
class TrainerCallback:
    def on_step_begin(self, args, state, control, **kwargs): pass
    def on_step_end(self, args, state, control, **kwargs): pass
"""

LIGHTNING = """
import json
from types import SimpleNamespace

class Trainer:
    def __init__(self, callbacks, epochs=2, batches=4, accumulate=2):
        self.callbacks = callbacks
        self.epochs, self.batches, self.accumulate = epochs, batches, accumulate
        self.global_step = 0
        self.profiler = SimpleNamespace(current_actions={})

    def fit(self, model, ckpt_path=None, weights_only=None):
        self.model, self.at = model, [0, 0]
        if ckpt_path is not None:
            assert weights_only is False
            with open(ckpt_path) as file:
                self.at, self.global_step, model["w"] = json.load(file)
        self._tell("on_train_start")
        while self.at[0] < self.epochs:
            while self.at[1] < self.batches:
                model["w"] *= 3
                self.at[1] += 1
                self.is_last_batch = self.at[1] == self.batches
                self.global_step += self.at[1] % self.accumulate == 0
                self._tell("on_train_batch_end", None, None, self.at[1] - 1)
            model["w"] -= 1  # as a validation that resuming at the last batch would leave out
            self.at = [self.at[0] + 1, 0]
            self._tell("on_train_epoch_end")

    def _tell(self, event, *args):
        for one in self.callbacks:
            assert event not in self.profiler.current_actions, "begun a second time"
            self.profiler.current_actions[event] = 1
            getattr(one, event)(self, self.model, *args)
            del self.profiler.current_actions[event]

    def save_checkpoint(self, path):
        with open(path, "w") as file:
            json.dump([self.at, self.global_step, self.model["w"]], file)
"""

CALLBACKS = """
class Callback:
    def on_train_start(self, trainer, model): pass
    def on_train_batch_end(self, trainer, model, outputs, batch, number): pass
    def on_train_epoch_end(self, trainer, model): pass
"""

# What a package makes of them.
PACKAGE = """
from transformers.trainer import Trainer

class Tells(Trainer):
    def _tell(self, event):
        super()._tell(event)

class Passes(Trainer):
    def train(self, *args, **keywords):
        return super().train(*args, **keywords)

class Forgets(Trainer):
    def train(self, *args, **keywords):
        return super().train(None, steps=keywords["steps"])

class Takes(Trainer):
    def train(self, nothing=None, *, steps):
        return super().train(steps=steps)
"""

_FILES = {
    "package_of_trainers.py": PACKAGE,
    "transformers/__init__.py": "__version__ = '99.0'",
    "transformers/trainer.py": TRANSFORMERS,
    "transformers/trainer_callback.py": CALLBACK,
    "lightning/__init__.py": "__version__ = '98.0'",
    "lightning/pytorch/__init__.py": "from . import callbacks",
    "lightning/pytorch/callbacks.py": CALLBACKS,
    "lightning/pytorch/trainer/__init__.py": "",
    "lightning/pytorch/trainer/trainer.py": LIGHTNING,
}

TRANSFORMERS_CELL = """
from transformers.trainer import Trainer
from transformers.trainer_callback import TrainerCallback

class Says(TrainerCallback):
    def on_step_end(self, args, state, control, model, **_):
        say((state.global_step, model["w"]))

def run(steps):
    trainer = Trainer([Says()])
    made = trainer.train(None, steps=steps)
    return made, len(trainer.callback_handler.callbacks)

for steps in (3, 2):
    say(run(steps))
"""

LIGHTNING_CELL = """
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.trainer import Trainer

class Says(Callback):
    def on_train_batch_end(self, trainer, model, outputs, batch, number):
        say((tuple(trainer.at), trainer.global_step, model["w"]))

trainer = Trainer([Says()])
trainer.fit({"w": 1})
say(len(trainer.callbacks))
"""


def write(directory: Path) -> None:
    """Compiled only, as some vendors ship their packages: without a text, nothing can be rewritten."""
    for name, text in _FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        py_compile.compile(str(path), str(path.with_suffix(".pyc")), doraise=True)
        path.unlink()


def write_texts(directory: Path) -> None:
    for name, text in _FILES.items():
        (directory / name).write_text(text)
