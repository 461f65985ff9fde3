"""What another user could have written, or could put in its place, is never opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_gpufit.errors import NotYours
from jupyter_gpufit.system.trust import check_trusted
from tests.people import EVE, need_root


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of one's own, two directories deep."""
    file = tmp_path / "mine" / "result" / "file"
    file.parent.mkdir(parents=True, mode=0o755)
    file.touch(mode=0o600)
    return file


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A directory like /tmp."""
    place = tmp_path / "public"
    place.mkdir()
    place.chmod(0o1777)
    return place


def test_ones_own_links_are_gone_through(mine: Path, public: Path, tmp_path: Path) -> None:
    (public / "link").symlink_to(mine.parent.parent)
    (tmp_path / "again").symlink_to("public/link/../mine")
    check_trusted(mine)
    check_trusted(tmp_path / "again" / "result" / "file")
    mine.with_name("link").symlink_to(mine)
    check_trusted(mine.with_name("link"))


def test_another_users_link_could_lead_elsewhere_in_a_moment(mine: Path, public: Path) -> None:
    need_root()
    link = public / "link"
    link.symlink_to(mine.parent.parent)
    os.chown(link, EVE, EVE, follow_symlinks=False)
    with pytest.raises(NotYours, match=f"{link} belongs to uid {EVE}"):
        check_trusted(link / "result" / "file")


@pytest.mark.parametrize("again", [False, True], ids=["at once", "by another link"])
def test_where_a_link_leads_is_looked_at_too(mine: Path, tmp_path: Path, again: bool) -> None:
    mine.parent.parent.chmod(0o777)
    link = tmp_path / "home"
    link.symlink_to(mine.parent.parent)
    if again:
        link = tmp_path / "home again"
        link.symlink_to("home")
    with pytest.raises(NotYours, match=f"{mine.parent.parent} can be written by others"):
        check_trusted(link / "result" / "file")


def test_a_link_to_a_file_is_as_good_as_the_file(mine: Path, tmp_path: Path) -> None:
    mine.chmod(0o666)
    (tmp_path / "link").symlink_to(mine)
    with pytest.raises(NotYours, match=f"{mine} can be written by others"):
        check_trusted(tmp_path / "link")


def test_what_is_not_there_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels"):
        check_trusted(tmp_path / "round")
    with pytest.raises(FileNotFoundError):
        check_trusted(tmp_path / "nothing")
