from __future__ import annotations

import pickle

import pytest

from jupyter_gpufit import errors
from jupyter_gpufit.units import GiB


def _all_errors(cls: type[errors.GpufitError]) -> list[type[errors.GpufitError]]:
    return [cls, *(found for sub in cls.__subclasses__() for found in _all_errors(sub))]


def test_the_tree_at_the_top_names_every_error() -> None:
    assert errors.__doc__ is not None
    missing = [
        cls.__name__
        for cls in _all_errors(errors.GpufitError)
        if cls.__module__.startswith(errors.__name__) and cls.__name__ not in errors.__doc__
    ]
    assert missing == []


@pytest.mark.parametrize(
    "error",
    [
        errors.NeverFits(90 * GiB, "GPU 1", 80 * GiB),
        errors.NameNotDefined("modle", 3, ("model",)),
        errors.CannotTravel(name="model", path="model.lock", why="a lock.", line=4),
        errors.NoSuchJob("bret", ("bert",)),
        errors.IsACommand("night"),
        errors.NotYourJob("bert", "ada"),
        errors.PathTooLong("/a" * 80, 107),
    ],
)
def test_an_error_survives_pickling_with_its_sentence(error: errors.GpufitError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_offers_what_was_probably_meant() -> None:
    assert "Did you mean model?" in str(errors.NameNotDefined("modle", 3, ("model", "optimizer")))
    assert "Did you mean bert or resnet?" in str(errors.NoSuchJob("bret", ("bert", "resnet")))
    assert "Did you mean odd_numbers-2?" in str(errors.NoSuchJob("odd", ("odd_numbers-2", "letters")))


def test_a_job_that_has_ended_is_not_said_to_go_on() -> None:
    early = str(errors.HasEnded("early", "is done", resumable=False))
    assert early == (
        "early is done, so there is nothing to save."
        " Its output, and its variables if no notebook has them: %gpufit attach early"
    )
    assert str(errors.HasEnded("early", "is released", resumable=True)).endswith("gpufit resume early")
    assert str(errors.NoJobMeant("runs")) == "No job of yours runs. `gpufit jobs` lists yours."


def test_never_fits_states_both_figures_and_a_way_out() -> None:
    text = str(errors.NeverFits(90 * GiB, "GPU 1", 80 * GiB))
    assert "90.0 GiB" in text and "80.0 GiB" in text and "smaller batch" in text
