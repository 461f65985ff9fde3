"""Libraries whose objects rely on their process: made in an earlier cell, used in one that trains."""

from __future__ import annotations

import pytest

from tests.kernels import Kernel
from tests.libraries import need

pytestmark = pytest.mark.slow


REGRESSION = (
    "import torch\n"
    "torch.manual_seed(0)\n"
    "class Data(torch.utils.data.Dataset):\n"
    "    x = torch.randn(32, 4)\n"
    "    def __len__(self): return 32\n"
    "    def __getitem__(self, i): return {'x': self.x[i], 'labels': self.x[i].sum()}\n"
    "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__(); self.lin = torch.nn.Linear(4, 1)\n"
    "    def forward(self, x, labels=None):\n"
    "        out = self.lin(x)[:, 0]\n"
    "        return {'loss': (out - labels).pow(2).mean(), 'logits': out}\n"
    "model = Net(); before = model.lin.weight.detach().clone()\n"
)
ARGUMENTS = (
    "from transformers import Trainer, TrainingArguments\n"
    "args = TrainingArguments('out', max_steps=4, per_device_train_batch_size=8, report_to=[],\n"
    "    save_strategy='no', logging_steps=2, disable_tqdm=True, dataloader_pin_memory=False)\n"
)


@pytest.mark.slow(19)
def test_a_trainer_of_an_earlier_cell_trains(kernel: Kernel) -> None:
    need("transformers", "accelerate")
    kernel.check(REGRESSION + ARGUMENTS + "trainer = Trainer(model, args, train_dataset=Data())\n")
    kernel.check("%%gpufit train\nresult = trainer.train()\n")
    kernel.check(
        "assert result.global_step == 4 == trainer.state.global_step\n"
        "assert trainer.model is model and not torch.equal(model.lin.weight.cpu(), before)\n"
        "from accelerate.state import AcceleratorState, PartialState\n"
        "assert trainer.accelerator.state.__dict__ is AcceleratorState._shared_state\n"
        "assert args.device.type == trainer.accelerator.device.type == model.lin.weight.device.type == 'cuda'\n"
        "trainer.train()\n"  # and goes on in the kernel
    )


def test_arguments_of_an_earlier_cell_make_a_trainer(kernel: Kernel) -> None:
    need("transformers", "accelerate")
    kernel.check(REGRESSION + ARGUMENTS)
    kernel.check("%%gpufit train\ntrainer = Trainer(model, args, train_dataset=Data())\nresult = trainer.train()\n")
    kernel.check("assert result.global_step == 4 and not torch.equal(model.lin.weight.cpu(), before)")
    kernel.check("assert args.device.type == model.lin.weight.device.type == 'cuda'")


def test_an_accelerator_of_an_earlier_cell_prepares_and_trains(kernel: Kernel) -> None:
    need("accelerate")
    kernel.check(
        REGRESSION + "from accelerate import Accelerator\n"
        "accelerator = Accelerator()\n"
        "opt = torch.optim.AdamW(model.parameters()); loader = torch.utils.data.DataLoader(Data(), batch_size=8)\n"
        "model, opt, loader = accelerator.prepare(model, opt, loader)\n"
    )
    kernel.check(
        "%%gpufit train\n"
        "for batch in loader:\n"
        "    loss = model(**batch)['loss']; accelerator.backward(loss); opt.step(); opt.zero_grad()\n"
    )
    kernel.check("assert not torch.equal(model.lin.weight.cpu(), before) and model.lin.weight.device.type == 'cuda'")
    kernel.check("for batch in loader: accelerator.backward(model(**batch)['loss'])")


@pytest.mark.slow(11)
def test_a_lightning_trainer_of_an_earlier_cell_trains_and_goes_on(kernel: Kernel) -> None:
    need("lightning")
    kernel.check(
        REGRESSION + "import lightning as L, logging\n"
        "logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)\n"
        "class Module(L.LightningModule):\n"
        "    def __init__(self, net): super().__init__(); self.net, self.seen = net, []\n"
        "    def training_step(self, batch, number):\n"
        "        self.seen.append(str(batch['x'].device)); return self.net(**batch)['loss']\n"
        "    def configure_optimizers(self): return torch.optim.AdamW(self.parameters())\n"
        "module, loader = Module(model), torch.utils.data.DataLoader(Data(), batch_size=8)\n"
        "trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)\n"
    )
    kernel.check("%%gpufit train\ntrainer.fit(module, loader)\n")
    kernel.check("assert not torch.equal(model.lin.weight.cpu(), before) and module.seen == ['cuda:0'] * 4")
    kernel.check("trainer.fit_loop.max_epochs = 2; trainer.fit(module, loader); assert trainer.global_step == 8")


@pytest.mark.slow(18)
def test_an_environment_that_an_earlier_cell_registered(kernel: Kernel) -> None:
    need("gymnasium")
    kernel.check(
        "import gymnasium as gym, numpy as np\n"
        "class Walk(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (2,)); action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed); return np.zeros(2, np.float32), {}\n"
        "    def step(self, action): return np.zeros(2, np.float32), 1.0, True, False, {}\n"
        "gym.register('Walk-v0', entry_point=Walk, max_episode_steps=5)\n"
    )
    kernel.check("%%gpufit train\nenv = gym.make('Walk-v0'); env.reset(seed=0); reward = env.step(1)[1]\n")
    kernel.check("assert reward == 1.0")


def test_a_learner_of_an_earlier_cell_has_the_methods_that_other_modules_gave_it(kernel: Kernel) -> None:
    # Not need(): no extra installs it, for it brings a torchvision that breaks transformers beside a torch for CPUs.
    pytest.importorskip("fastai", reason="NOT TESTED: fastai is not installed")
    kernel.check(
        "import torch\n"
        "import fastai.callback.schedule\n"
        "from fastai.data.core import DataLoaders\nfrom fastai.learner import Learner\n"
        "torch.manual_seed(0)\nx = torch.randn(32, 4); y = x.sum(1, keepdim=True)\n"
        "data = torch.utils.data.TensorDataset(x, y)\n"
        "loaders = DataLoaders.from_dsets(data, data, bs=8, device='cpu')\n"
        "learn = Learner(loaders, torch.nn.Linear(4, 1), loss_func=torch.nn.MSELoss())\n"
        "before = learn.model.weight.detach().clone()\n"
    )
    kernel.check("%%gpufit train\nlearn.fit_one_cycle(1)\n")
    kernel.check("assert not torch.equal(learn.model.weight, before)\nlearn.fit_one_cycle(1)")


@pytest.mark.slow(16)
def test_the_weights_of_a_keras_model_come_back_into_the_notebooks_own(kernel: Kernel) -> None:
    need("keras")
    kernel.check(
        "import os; os.environ['KERAS_BACKEND'] = 'torch'\nimport keras, numpy as np\n"
        "keras.utils.set_random_seed(0)\n"
        "model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])\n"
        "model.compile(optimizer='adam', loss='mse')\n"
        "x = np.random.randn(32, 4).astype('float32'); y = x.sum(1, keepdims=True)\n"
        "before = [w.copy() for w in model.get_weights()]; same = model\n"
    )
    kernel.check("%%gpufit train\nhistory = model.fit(x, y, epochs=2, verbose=0)\ntrained = model.get_weights()\n")
    kernel.check(
        "assert model is same\n"
        "assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), trained))\n"
        "assert not all(np.array_equal(a, b) for a, b in zip(before, trained))\n"
        "assert len(history.history['loss']) == 2 and history.model is model\n"
        "model.fit(x, y, verbose=0)\n"
    )
