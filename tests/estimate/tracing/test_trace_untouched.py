"""What tracing a cell leaves as it was: variables, generators, files, servers, shared memory."""

from __future__ import annotations

import mmap
import os
import random
import signal
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jupyter_gpufit.graph import receive, ship
from tests.estimate.traced import hashed, traced

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def test_nothing_here_changes(capfd: pytest.CaptureFixture[str]) -> None:
    model, data = nn.Linear(64, 64), torch.zeros(100)
    names = ("is_available", "device_count", "memory_allocated", "current_device")

    def state() -> str:
        return hashed(
            *model.parameters(), data, torch.get_rng_state(), random.getstate(), torch.get_num_threads(), os.environ,
            *(getattr(torch.cuda, name) for name in names), torch.load, torch.save, torch.compile, open, os.remove,
            nn.Module.to, nn.Module._apply, torch.optim.Optimizer.__init__, torch.autograd.graph._engine_run_backward,
            signal.getsignal(signal.SIGINT), os.listdir("/proc/self/fd"), torch._C._get_privateuse1_backend_name(),
        )  # fmt: skip

    before = state()
    trace = traced(
        """
        import torch, random
        torch.manual_seed(3); random.random(); torch.rand(3)
        data += 1
        model.weight.data.zero_()
        model.cuda()(torch.randn(8, 64, device="cuda")).sum().backward()
        print("heard by nobody")
        """,
        lambda: {"model": model, "data": data},
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert state() == before
    assert capfd.readouterr() == ("", "")


def test_no_file_changes(tmp_path: Path) -> None:
    for name in ("kept.txt", "log.txt", "gone.txt", "both.txt"):
        (tmp_path / name).write_text(f"this is {name}")
    (tmp_path / "folder").mkdir()
    before = files(tmp_path)

    def arrived() -> dict[str, Any]:
        found: dict[str, Any] = {"log": log, "folder": tmp_path / "folder"}
        receive(shipment.graph, shipment.memory, found, private=True)
        return found

    with (tmp_path / "log.txt").open("a") as log, (tmp_path / "both.txt").open("r+") as both:
        shipment = ship(["both"], {"both": both})
        trace = traced(
            f"""
            import torch, os, shutil, subprocess, tempfile, numpy, safetensors.torch
            from pathlib import Path
            os.chdir({str(tmp_path)!r})
            log.write("a line"); log.flush(); os.write(log.fileno(), b"another")
            assert both.read(5) == "this "
            both.write(", which goes on"); both.seek(0)
            assert both.read() == "this is both.txt, which goes on"
            with open("kept.txt", "w") as file:
                file.write("overwritten")
            assert open("kept.txt").read() == "overwritten"
            with open("kept.txt", "a") as file:
                file.write(", and more")
            assert Path("kept.txt").read_text() == "overwritten, and more"
            Path("new").mkdir(); os.makedirs("a/b/c", exist_ok=True); Path("new/file").write_text("new")
            assert os.path.isdir("a/b") and next(os.walk("a/b/c")) == ("a/b/c", [], []) and Path("new/file").is_file()
            assert os.listdir("new") == ["file"] and [path.name for path in Path("new").glob("*")] == ["file"]
            os.remove("gone.txt"); shutil.rmtree("folder"); os.rename("gone.txt", "renamed.txt")
            torch.save({{}}, "model.pt"); safetensors.torch.save_file({{}}, "model.safetensors")
            numpy.save("array.npy", numpy.zeros(3))
            os.close(os.open("lock", os.O_CREAT | os.O_RDWR))
            with tempfile.TemporaryDirectory() as own:
                Path(own, "folder").mkdir(); Path(own, "folder", "file").write_text("gone with it")
            assert not os.path.exists(own)
            shutil.rmtree(folder)
            try:
                subprocess.run("echo overwritten > kept.txt; touch another", shell=True)
            except PermissionError:
                pass
            """,
            arrived,
        )

    assert (trace.status, trace.error) == ("completed", "")
    assert files(tmp_path) == before
    assert trace.notes["not written: torch.save"] == 1
    assert trace.notes["files written to a scratch directory"] >= 3


def test_functions_of_files_are_redirected_under_each_name(tmp_path: Path) -> None:
    shipment = ship(["listdir"], {"listdir": os.listdir})  # as `from os import listdir` in an earlier cell

    def arrived() -> dict[str, Any]:
        found: dict[str, Any] = {}
        receive(shipment.graph, shipment.memory, found, private=True)
        return found

    trace = traced(
        f"""
        import os
        os.chdir({str(tmp_path)!r}); os.mkdir("new"); open("new/file", "w").close()
        assert listdir("new") == ["file"]
        """,
        arrived,
    )

    assert (trace.status, trace.error) == ("completed", "")


def test_no_server_hears_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        trace = traced(
            f"""
            import socket
            try:
                socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 1)
            except OSError as error:
                assert "an estimate" in str(error)
            """
        )

        assert (trace.status, trace.error) == ("completed", "")
        assert trace.notes["no connection made to a server"] == 1
        with pytest.raises(TimeoutError):
            server.accept()


def test_memory_shared_with_other_processes_is_only_ours_to_change(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "array", dtype=np.float32, mode="w+", shape=100_000)
    shared, anonymous = torch.zeros(100_000).share_memory_(), mmap.mmap(-1, 8192)

    trace = traced(
        """
        array[:] = 1
        shared.fill_(1)
        anonymous[:4] = b"1111"
        assert array.sum() == shared.sum() == 100_000
        """,
        lambda: {"array": array, "shared": shared, "anonymous": anonymous},
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert (array.max(), shared.max(), anonymous[:4]) == (0, 0, bytes(4))
