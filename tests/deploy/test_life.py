"""A deployed model from the terminal: called, moved, released, killed, resumed; real processes on CPU slots."""

from __future__ import annotations

import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import anyio
import numpy as np
import psutil
import pytest
import torch
from onnx import helper

from jupyter_gpufit.actions.trying import try_it
from jupyter_gpufit.calls.client import DeployedModel, DeployedModels
from jupyter_gpufit.calls.protocol import Call, CallReply, Lying, encode
from jupyter_gpufit.errors import BadCall, CallFailed, DeployError, NotServing, QueueFull, TooLate
from jupyter_gpufit.jobs.paths import calls_path, socket_path
from jupyter_gpufit.jobs.record import Record, read_record
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit, jobs, kill_workers
from tests.deploy.memory import unwritable_memory
from tests.models.zoo import affine, save

pytestmark = pytest.mark.slow
SIDE = 1024  # of the matrices that keep a processor busy for a moment
CALLERS = 200


@pytest.fixture(scope="module")
def settings(home: Path) -> Settings:
    """Of the same user, for this process."""
    return Settings(data=str(home / ".local/share/gpufit"), runtime=str(home / "run/gpufit"))


@pytest.fixture(scope="module")
def weights(home: Path, env: dict[str, str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Those of the model `net`, which is deployed once for this module."""
    found = affine(home / "net.onnx")
    deployed = gpufit(env, "deploy", str(home / "net.onnx"), "--name", "net")
    assert deployed.returncode == 0, deployed.stderr
    assert "net: x: float32 [batch, 4] -> y: float32 [batch, 2]. It claims" in deployed.stdout
    assert "were expected" in deployed.stdout and "net answers on cpu:0." in deployed.stdout
    assert deployed.stdout.endswith("To call it: net = %gpufit attach net in a notebook; over HTTP: gpufit serve\n")
    yield found
    kill_workers(home)


@pytest.fixture(scope="module")
def net(settings: Settings, weights: object) -> DeployedModel:
    return DeployedModel(settings, *find_job(settings, "net"))


@pytest.fixture(scope="module")
def slow(home: Path, env: dict[str, str], settings: Settings, weights: object) -> DeployedModel:
    """A model that takes its time, with room for two calls in its queue."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"])]
    nodes += [helper.make_node("MatMul", [name, name], [answer]) for name, answer in ("ab", "bc", "cd")]
    nodes += [helper.make_node("ReduceSum", ["d"], ["y"], keepdims=0)]
    save(home / "slow.onnx", nodes, [("x", [1])], [("y", [])], {"w": np.ones((SIDE, SIDE), np.float32)})
    deployed = gpufit(env, "deploy", str(home / "slow.onnx"), "--name", "slow", "--waiting", "2")
    assert deployed.returncode == 0, deployed.stderr
    return DeployedModel(settings, *find_job(settings, "slow"))


def record(settings: Settings, name: str) -> Record:
    return read_record(find_job(settings, name)[1])


def patiently(model: DeployedModel, x: np.ndarray) -> object:
    """Ask until there is room in its queue."""
    while True:
        with suppress(QueueFull):
            return model(x)


def worker(settings: Settings, name: str) -> psutil.Process:
    found = record(settings, name).worker
    assert found is not None
    return psutil.Process(found.pid)


# Called -----------------------------------------------------------------------------------------------------------


def test_it_is_a_job_with_a_claim_like_any_other(env: dict[str, str], net: DeployedModel) -> None:
    job = jobs(env)["net"]
    assert (job["state"], job["device"], job["kind"]) == ("running", "cpu:0", "model")
    status = gpufit(env, "status").stdout
    assert "your net" in status
    assert re.search(r"net +\w{6} +running .* calls/s", status)


def test_a_trial_calls_it_with_an_input_made_from_its_signature(settings: Settings, net: DeployedModel) -> None:
    async def trial() -> list[str]:
        return [words async for words in try_it(settings, net.id)]

    [words] = anyio.run(trial)
    assert re.fullmatch(r"net answered in \S+ ms\. y: float32 \[1, 2\] from \S+ to \S+", words)


def test_numpy_and_torch_go_in_and_the_same_come_out_in_any_batch(
    net: DeployedModel, weights: tuple[np.ndarray, np.ndarray]
) -> None:
    w, b = weights
    for rows in (1, 2, 16, 100):  # of which 16 are run at once
        x = np.random.default_rng(rows).standard_normal((rows, 4), np.float32)
        np.testing.assert_allclose(net(x), x @ w + b, rtol=1e-4, atol=1e-5)
    answer = net(x=torch.from_numpy(x))
    assert isinstance(answer, torch.Tensor)
    np.testing.assert_allclose(answer.numpy(), x @ w + b, rtol=1e-4, atol=1e-5)
    assert net(x[:, ::-1].copy()[:, ::-1]).shape == (100, 2)  # rows that do not lie one after the other


def test_no_rows_and_strange_numbers_are_answered_too(net: DeployedModel) -> None:
    assert net(np.zeros((0, 4), np.float32)).shape == (0, 2)
    assert np.isnan(net(np.full((1, 4), np.nan, np.float32))).all()


def test_an_answer_stays_what_it_was_after_the_next_call(net: DeployedModel) -> None:
    first = net(np.zeros((1, 4), np.float32))
    kept = first.copy()
    net(np.ones((1, 4), np.float32))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda net: net(np.zeros((1, 4))), "x is float64, and the model takes float32: x.astype('float32')"),
        (lambda net: net(np.zeros((1, 5), np.float32)), "x has the shape [1, 5], and the model takes [batch, 4]"),
        (lambda net: net(z=1), "The model has no input 'z'. It takes x: float32"),
        (lambda net: net(), "The input 'x' is missing"),
        (lambda net: net("text"), "x is a str; give an array of numbers"),
    ],
    ids=range(5),
)
def test_a_wrong_call_is_told_what_was_expected(net: DeployedModel, call: Callable[..., object], why: str) -> None:
    with pytest.raises(BadCall) as found:
        call(net)
    assert why in str(found.value)


def test_many_callers_at_once_each_get_their_own_answer(
    net: DeployedModel, weights: tuple[np.ndarray, np.ndarray]
) -> None:
    w, b = weights

    def ask(number: int) -> bool:
        x = np.full((1 + number % 3, 4), number, np.float32)
        return bool(np.allclose(net(x), x @ w + b, rtol=1e-4))

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(300)))


def test_both_sockets_are_for_its_user_alone(settings: Settings, net: DeployedModel) -> None:
    for path in (socket_path(settings, net.id), calls_path(settings, net.id)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_whoever_talks_nonsense_is_told_so_and_hurts_nobody(settings: Settings, net: DeployedModel) -> None:
    call = Call((Lying("float32", (1, 4), 0),), 64)
    far = Call((Lying("float32", (1, 4), 1 << 40),), 64)
    shrinking = os.memfd_create("mine")
    os.ftruncate(shrinking, 4096)
    sealed = unwritable_memory()
    try:
        for packet, fds, why in (
            (b"\xff\xfe", [], "cannot be read"),
            (b"[1]", [], "cannot be read"),
            (encode(Call((), 0)), [], "0 inputs came, and the model takes 1"),
            (encode(call), [], "no memory with the call"),
            (encode(call), [shrinking], "stays as large as it is"),
            (b"[" * 60_000, [], "nested too deeply"),
            *((encode(call), [fd], "cannot be written") for fd in sealed),
        ):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mine:
                mine.connect(str(calls_path(settings, net.id)))
                socket.send_fds(mine, [packet], fds)
                assert why in CallReply.decode(mine.recv(1 << 16)).bad
                mine.send(encode(far))
                assert CallReply.decode(mine.recv(1 << 16)).bad
    finally:
        for fd in (shrinking, *sealed):
            os.close(fd)
    assert net(np.zeros((1, 4), np.float32)).shape == (1, 2)


# Too many, and gone -----------------------------------------------------------------------------------------------


def test_callers_beyond_the_queue_are_refused_with_the_time(settings: Settings, slow: DeployedModel) -> None:
    x = np.zeros(1, np.float32)
    slow(x)  # from now on, how long one takes is known
    before = worker(settings, "slow").memory_info().rss

    def ask(_: int) -> object:
        try:
            return slow(x)
        except QueueFull as error:
            return error

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(ask, range(CALLERS)))
    refused = [one for one in answers if isinstance(one, QueueFull)]
    assert 0 < len(refused) < CALLERS
    assert all(one.waiting == 2 and one.seconds > 0 for one in refused)
    assert "has 2 requests waiting, and takes no more now. Call it again in" in str(refused[0])
    assert slow(x) == 0.0
    assert worker(settings, "slow").memory_info().rss - before < 32 << 20


def test_a_caller_that_vanishes_in_the_middle_is_forgotten(slow: DeployedModel) -> None:
    x = np.zeros(1, np.float32)
    for _ in range(3):  # as many as would fill the queue
        connection = slow._take()
        region, _new = connection._region_of(4096)
        region.array(Lying("float32", (1,), 0))[...] = 0
        socket.send_fds(connection._socket, [encode(Call((Lying("float32", (1,), 0),), 64))], [region.fd])
        connection.close()
    assert patiently(slow, x) == 0.0


# Moved, released, killed ------------------------------------------------------------------------------------------


def test_a_move_under_load_fails_no_call(env: dict[str, str], settings: Settings, net: DeployedModel) -> None:
    x, ended, answered = np.ones((1, 4), np.float32), threading.Event(), []

    def ask() -> int:
        count = 0
        while not ended.is_set():
            net(x)
            count += 1
            answered.append(1)
        return count

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            before = worker(settings, "net")
            [first] = before.children()
            moved = gpufit(env, "move", "net", "--to", "cpu:1")
        finally:
            ended.set()
        assert sum(one.result() for one in asking) > 4
    assert moved.returncode == 0, moved.stderr
    assert moved.stdout.splitlines()[-1] == "net runs on cpu:1."
    assert record(settings, "net").device == "cpu:1" and worker(settings, "net") == before
    assert not first.is_running() and before.children() != [first]
    again = gpufit(env, "move", "net", "--to", "cpu:1")
    assert again.returncode == 2 and "it is on cpu:1 already" in again.stderr


def test_a_move_that_cannot_load_leaves_it_where_it_was(
    env: dict[str, str], settings: Settings, net: DeployedModel
) -> None:
    x, device = np.ones((1, 4), np.float32), record(settings, "net").device
    file = find_job(settings, "net")[1].input / "net.onnx"
    aside = file.rename(file.with_suffix(".aside"))
    moved = gpufit(env, "move", "net")
    aside.rename(file)
    assert moved.returncode == 2 and "net goes on as it was: ONNX Runtime cannot load it" in moved.stderr
    assert record(settings, "net").state == "running" and record(settings, "net").device == device
    assert net(x).shape == (1, 2)
    assert len([line for line in gpufit(env, "status").stdout.splitlines() if "(you)  net" in line]) == 1  # one claim


def test_a_released_model_says_so_and_answers_the_same_caller_again_once_it_is_resumed(
    env: dict[str, str], settings: Settings, net: DeployedModel
) -> None:
    x = np.ones((1, 4), np.float32)
    wanted = net(x)
    released = gpufit(env, "release", "net")
    assert released.returncode == 0 and "net is released after" in released.stdout
    assert "your net" not in gpufit(env, "status").stdout
    with pytest.raises(NotServing, match="it is released. To have it back: %gpufit resume net$"):
        net(x)
    assert "released" in repr(net)
    resumed = gpufit(env, "resume", "net")
    assert resumed.returncode == 0 and "it took" in resumed.stdout and "net answers on" in resumed.stdout
    np.testing.assert_array_equal(net(x), wanted)


@pytest.mark.parametrize("who", ["the instance", "the job's process"])
def test_a_kill_in_the_middle_of_a_call_is_an_error_and_a_resume_brings_it_back(
    env: dict[str, str], settings: Settings, slow: DeployedModel, who: str
) -> None:
    x, asked, failed = np.zeros(1, np.float32), threading.Event(), []

    def ask() -> None:
        try:
            while True:
                asked.set()
                slow(x)
        except DeployError as error:
            failed.append(error)

    process = worker(settings, "slow")
    [instance] = process.children()
    asking = threading.Thread(target=ask)
    asking.start()
    asked.wait()
    (instance if who == "the instance" else process).kill()
    asking.join()
    assert isinstance(failed[0], CallFailed | NotServing)
    psutil.wait_procs([instance, process])  # neither outlives the other
    said = gpufit(env, "jobs").stdout
    assert ("ended unexpectedly: it was ended by SIGKILL" if who == "the instance" else "lost") in said
    assert "your slow" not in gpufit(env, "status").stdout
    with pytest.raises(NotServing, match="gpufit resume slow"):
        slow(x)
    resumed = gpufit(env, "resume", "slow")
    assert resumed.returncode == 0, resumed.stderr
    assert slow(x) == 0.0


def test_what_a_model_has_not_is_refused_in_a_sentence(env: dict[str, str], net: DeployedModel) -> None:
    saved = gpufit(env, "checkpoint", "net")
    assert saved.returncode == 2 and "it is a deployed model: its file is all there is to save" in saved.stderr
    taken = gpufit(env, "deploy", "net.onnx", "--name", "net")
    assert taken.returncode == 2 and "Your job 'net' is still running" in taken.stderr


def test_in_the_middle_of_a_move_it_is_not_released_and_a_stop_leaves_both_places(
    home: Path, env: dict[str, str], settings: Settings, net: DeployedModel
) -> None:
    (home / "net.onnx").unlink()  # the job has its own
    wanted = net(np.ones((1, 4), np.float32))
    file = find_job(settings, "net")[1].input / "net.onnx"
    aside = file.rename(file.with_suffix(".aside"))
    os.mkfifo(file)
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(gpufit, env, "move", "net")
        writing = os.open(file, os.O_WRONLY)  # it is opened when the next instance loads it, which takes for ever
        instances = worker(settings, "net").children()
        assert len(instances) == 2 and record(settings, "net").state == "moving"
        released = gpufit(env, "release", "net")
        assert released.returncode == 2 and "it is moving" in released.stderr
        np.testing.assert_array_equal(net(np.ones((1, 4), np.float32)), wanted)
        assert "net: ended" in gpufit(env, "stop", "net").stdout
        os.close(writing)
        assert "net was stopped" in moving.result().stdout
    assert not any(one.is_running() for one in instances)
    assert "your net" not in gpufit(env, "status").stdout
    aside.rename(file)
    assert gpufit(env, "resume", "net").returncode == 0
    np.testing.assert_array_equal(net(np.ones((1, 4), np.float32)), wanted)


# Several on one device ---------------------------------------------------------------------------------------------


def test_several_share_a_claim_that_not_all_fit_into_and_a_call_that_would_be_late_is_refused(
    home: Path, env: dict[str, str], settings: Settings, weights: object
) -> None:
    wide = {"a": 1024, "b": 1025, "c": 1026}  # 4 MiB of weights each
    wanted = {name: affine(home / f"{name}.onnx", features=side, answers=side) for name, side in wide.items()}
    files = [str(home / f"{name}.onnx") for name in wide]
    options = ("--name", "many", "--deadline", "30s", "--memory", "73MiB")
    deployed = gpufit(env, "deploy", *files, *options)
    assert deployed.returncode == 0, deployed.stderr
    assert "many.a: x: float32 [batch, 1024] -> y: float32 [batch, 1024]" in deployed.stdout
    assert "are for weights: they come and go as they are called for." in deployed.stdout
    models = DeployedModels(settings, *find_job(settings, "many"))
    assert [model.model for model in models] == list(wide) and repr(models["b"]).startswith("<many.b: running")
    with pytest.raises(KeyError, match="many has a, b, c, and no 'd'"):
        models["d"]

    def right(name: str) -> None:
        w, b = wanted[name]
        x = np.ones((1, wide[name]), np.float32)
        np.testing.assert_allclose(models[name](x), w.sum(0, keepdims=True) + b, rtol=1e-3, atol=1e-3)

    for name in "abc" * 3:  # each time, another one leaves
        right(name)
    [instance] = worker(settings, "many").children()
    before = instance.memory_info().rss
    for name in "abc" * 10:
        right(name)
    assert instance.memory_info().rss - before < 2 << 20  # half of one model's weights
    with ThreadPoolExecutor(3) as pool:  # now one is loaded while another one runs
        assert len(list(pool.map(right, "abc" * 10))) == 30
    models["a"].deadline = 1e-6
    with pytest.raises(TooLate, match=r"many.a cannot answer within 0.001 ms; it could in .* ms. Call it again later"):
        right("a")
    assert gpufit(env, "move", "many").returncode == 0
    right("b")
    assert gpufit(env, "stop", "many").returncode == 0
