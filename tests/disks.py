"""A disk that is full, by the system's own word."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """A file system of `size` (8m, 512k) in this folder."""
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: mounts a small tmpfs to fill it")
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", at], capture_output=True)
    if mount.returncode:
        pytest.skip(f"CANNOT MOUNT a small tmpfs here: {mount.stderr.decode().strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), open(disk / "filling", "wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
