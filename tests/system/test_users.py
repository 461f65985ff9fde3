"""Whether anybody else has an account here."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from jupyter_gpufit.system import users


def account(uid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((f"user{uid}", "x", uid, uid, "", f"/home/user{uid}", shell))


@pytest.mark.parametrize(
    ("accounts", "homes", "others"),
    [
        ([account(0), account(os.getuid())], [], False),
        ([account(101), account(65534)], [], False),  # services
        ([account(1234, "/usr/sbin/nologin")], [], False),
        ([account(1234)], [], True),
        ([], [1234], True),  # whom a directory server knows and does not list
        ([], [os.getuid(), 0], False),
    ],
)
def test_people_are_those_who_can_log_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accounts: list[pwd.struct_passwd], homes: list[int], others: bool
) -> None:
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    monkeypatch.setattr(users, "_owners_of_homes", lambda: homes)
    users._others_have_accounts.cache_clear()
    assert users.others_have_accounts() is others
    monkeypatch.setattr(pwd, "getpwall", lambda: pytest.fail("the list of users, again"))
    assert users.others_have_accounts() is others
    users._others_have_accounts.cache_clear()
