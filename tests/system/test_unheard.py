"""What is not heard is forgotten by nobody."""

from __future__ import annotations

import warnings

import pytest

from jupyter_gpufit.system.unheard import unheard


def _says(what: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(what, category, stacklevel=1)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *rest, **more: found.append(str(message)))
    globals().pop("__warningregistry__", None)
    return found


def test_what_was_shown_once_is_not_shown_again_after_it(heard: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        _says("once")
        with unheard():
            _says("never")
        _says("once")
        assert heard == ["once"]
        _says("never")

    assert heard == ["once", "never"]


def test_other_categories_are_heard_and_what_is_inside_may_set_filters(heard: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        before = list(warnings.filters)
        with unheard(DeprecationWarning, FutureWarning):
            _says("old", DeprecationWarning)
            _says("later", FutureWarning)
            _says("of now")
            warnings.filterwarnings("error", "an error")

        assert heard == ["of now"]
        assert warnings.filters[1:] == before and warnings.filters[0][0] == "error"
        with pytest.raises(UserWarning, match="an error"):
            _says("an error")
