"""Which texts of library functions are known: each was killed in its loop, and went on to the bit, in a version named.

A text is known by the first 16 digits of its sha256, so one entry holds for all versions that share it. Named are those
in which it was found, as a rule the first and the last. Only data is here; `library` uses it.
"""

from __future__ import annotations

from typing import TypeAlias

Known: TypeAlias = dict[str, str]  # hash of the text: versions that have it
Functions: TypeAlias = dict[str, Known]  # by qualified name

GENERATORS: dict[str, Functions] = {
    "torch.utils.data.sampler": {
        "RandomSampler.__iter__": {"a58dbac69fddad94": "2.6.0 to 2.15.0"},
        "SubsetRandomSampler.__iter__": {"1ff0e2f1c68b42b4": "2.6.0, 2.7.1", "b24ce907dda8202e": "2.8.0 to 2.15.0"},
        "WeightedRandomSampler.__iter__": {"6a6675187e8f1510": "2.6.0 to 2.15.0"},
        "BatchSampler.__iter__": {
            "a5a4d983fd154884": "2.6.0",
            "fb9663f3e27f6f21": "2.7.1, 2.8.0",
            "65e7879d88665497": "2.9.1",
            "7fe3a2e8b04f8372": "2.10.0 to 2.15.0",
        },
    },
    "tqdm.std": {
        "tqdm.__iter__": {
            "d218b6598601eafd": "4.65.0 to 4.68.0",
            "d5129d95fdc51da1": "4.69.1",
            "9a92008fc9845755": "4.70.1",
        }
    },
    "accelerate.data_loader": {
        "DataLoaderShard.__iter__": {"3ee947f687761408": "0.34.2 to 1.8.1", "77b896b76f3c73e9": "1.9.0 to 1.15.0"},
        "SeedableRandomSampler.__iter__": {
            "daa1815bc1ea1245": "0.34.2 to 1.4.0",
            "1e8040721b7cbbf5": "1.5.2 to 1.15.0",
        },
    },
}

# Under either of its names.
_LIGHTNING: dict[str, Functions] = {
    "trainer.trainer": {
        "Trainer.fit": {
            "86a974a71120009e": "lightning 2.4.0, 2.5.0",
            "d49e15523912a16a": "lightning 2.5.1 to 2.5.3",
            "b5182685eb297493": "lightning 2.5.5, 2.5.6",
            "30c9750f3f1b6786": "lightning 2.6.0 to 2.6.6",
            "9cac89a4f47c393f": "pytorch-lightning 2.4.0, 2.5.0",
            "3ad5cf2e08a49d19": "pytorch-lightning 2.5.1 to 2.5.3",
            "8d62943cc583c080": "pytorch-lightning 2.5.5, 2.5.6",
            "f755b33ecbc2a0cb": "pytorch-lightning 2.6.0, 2.6.6",
        },
        "Trainer._fit_impl": {
            "c3a734e77c903974": "2.4.0, 2.5.0",
            "af6f301a57b5cf2c": "2.5.1 to 2.5.6",
            "5288d1ba3c063e1a": "2.6.0 to 2.6.6",
        },
        "Trainer._run": {"6c8cfb33877289e5": "2.4.0 to 2.5.6", "6b7fa38f7340f413": "2.6.0 to 2.6.6"},
        "Trainer._run_stage": {"7ac3f4a2372ec663": "2.4.0 to 2.6.6"},
    },
    "trainer.call": {
        "_call_and_handle_interrupt": {
            "f376114b6f5bb12c": "2.4.0 to 2.5.2",
            "e8fc47931d63cebb": "2.5.3 to 2.6.6",
        }
    },
    "loops.fit_loop": {
        "_FitLoop.run": {"26d7e41055a715cd": "2.4.0", "32914184815883f4": "2.5.0 to 2.6.6"},
        "_FitLoop.advance": {"8e291f9c9323df71": "2.4.0 to 2.6.6"},
    },
    "loops.training_epoch_loop": {
        "_TrainingEpochLoop.run": {"ecf9525cc5973d66": "2.4.0", "e8393a2170ccbe01": "2.5.0 to 2.6.6"}
    },
}
_IN_LIGHTNING = {
    "fit", "_call_and_handle_interrupt", "trainer_fn", "_fit_impl", "_run", "_run_stage", "run", "advance"
}  # fmt: skip

# Functions with the loops of a library, by module; and the names they are called by, there and in a cell.
FUNCTIONS: dict[str, Functions] = {
    "transformers.trainer": {
        "Trainer.train": {
            "b49856c56b33d998": "4.46.0, 4.46.3",
            "804bf7a914de0149": "4.47.0 to 4.49.0",
            "7a10952f5983055a": "4.50.0, 4.50.3",
            "ff688b97033e2057": "4.51.0 to 4.52.4",
            "dbcc117c7a7b8572": "4.53.0 to 4.55.4",
            "154112e6f75513cb": "4.56.0, 4.56.2",
            "14022e7c2079c353": "4.57.1, 4.57.6",
            "b1038cba957cbf7d": "5.0.0, 5.1.0",
            "d33fbc166f257998": "5.2.0",
            "35d9f68e193ea8ab": "5.3.0 to 5.15.1",
            "39c50ba97dbe8e52": "5.16.0, 5.16.1",
            "f2ab74639cb0528d": "5.17.0 to 5.22.0",
            "9a3c2bcd066d8f99": "5.23.0",
        },
        "Trainer._inner_training_loop": {
            "11575f5ea66850d1": "4.46.0",
            "04c43fe70179e7b9": "4.46.3",
            "6393da931c994710": "4.47.0",
            "270482f3d87c4841": "4.47.1 to 4.48.3",
            "e01933ca589a0f6d": "4.49.0",
            "9e701f1b40a16a81": "4.50.0, 4.50.3",
            "5cbd42bc6403cdb8": "4.51.0, 4.51.3",
            "67dd52e45a1869e6": "4.52.1, 4.52.4",
            "6e52867632d83da4": "4.53.0",
            "2322486e5724dde5": "4.53.3",
            "7513dfefee46dbb1": "4.54.0, 4.54.1",
            "d247e5b111b42b81": "4.55.0 to 4.56.2",
            "fb3e7f42af2bcd95": "4.57.1, 4.57.6",
            "0856c6d3e9389bec": "5.0.0",
            "38db21e0ce189d6c": "5.1.0",
            "7bd631d08c50aa3c": "5.2.0",
            "59b69168df655246": "5.3.0 to 5.18.0",
            "20ec4276e99fe7ae": "5.19.0 to 5.23.0",
        },
        "Trainer._run_epoch": {  # before 5.3, part of the one above
            "a6f11e67e0e37773": "5.3.0",
            "c704c082dae4b742": "5.4.0 to 5.16.1",
            "ebe374933064ecd6": "5.17.0 to 5.22.0",
            "31aff00f34c302a2": "5.23.0",
        },
    },
    **{f"lightning.pytorch.{module}": functions for module, functions in _LIGHTNING.items()},
    **{f"pytorch_lightning.{module}": functions for module, functions in _LIGHTNING.items()},
}
CALLED = {
    "transformers": {"train", "_inner_training_loop", "inner_training_loop", "_run_epoch"},
    "lightning": _IN_LIGHTNING,
    "pytorch_lightning": _IN_LIGHTNING,
}
USED = {"transformers": ("accelerate.data_loader", "torch.utils.data.sampler")}  # generators that its loops go through
