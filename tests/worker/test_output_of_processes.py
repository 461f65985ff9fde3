"""Output where processes are forked and signals come: each line once, in order, and nobody hangs."""

from __future__ import annotations

import pytest

from tests.worker.seen import run_alone


@pytest.mark.slow
def test_a_forked_child_writes_what_it_prints_once() -> None:
    out, err = run_alone(
        """
        libc.printf(b"unfinished ")
        sys.stdout.write("parent\\n")
        output.put("a picture")
        if os.fork() == 0:
            sys.stdout.write("child\\n")
            sys.stderr.write("its error\\n")
            libc.puts(b"child's C")
            sys.stdout.buffer.write(b"child's bytes\\n")
            output.put("lost: a child has no way to the journal")
            output.flush()
            output.stop()
            os._exit(0)
        os.wait()
        sys.stdout.write("parent again\\n")
        """
    )

    assert err == "its error\n"
    assert out == "parent\nunfinished child\nchild's C\nchild's bytes\nparent again\n"


@pytest.mark.slow
def test_a_fork_while_another_thread_is_writing_does_not_hang_the_child() -> None:
    out, err = run_alone(
        """
        held, done = threading.Event(), threading.Event()
        def hold():
            with output._lock:
                held.set()
                done.wait()
        threading.Thread(target=hold).start()
        held.wait()
        if os.fork() == 0:
            sys.stdout.write("free\\n")
            os._exit(0)
        os.wait()
        done.set()
        """
    )

    assert (out, err) == ("free\n", "")


@pytest.mark.slow
def test_worker_processes_of_a_pool_print() -> None:
    out, err = run_alone(
        """
        def work(number):
            sys.stdout.write(f"{number}\\n")
            return number
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(work, range(50))
        """
    )

    assert sorted(out.split(), key=int) == [str(number) for number in range(50)]
    assert err == ""


@pytest.mark.slow
def test_a_signal_handler_may_print_at_any_moment() -> None:
    out, _ = run_alone(
        """
        ticks = 0
        def tick(*_):
            global ticks
            ticks += 1
            sys.stdout.write("!")
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for number in range(20000):
            sys.stdout.write(".")
            if number % 100 == 0:
                os.write(1, b"_")
        signal.setitimer(signal.ITIMER_REAL, 0)
        output.flush()
        sys.stdout.write(f"|{ticks}")
        """
    )

    written, ticks = out.split("|")
    assert written.count(".") == 20000
    assert written.count("_") == 200
    assert written.count("!") == int(ticks)


@pytest.mark.slow
def test_an_interrupted_print_loses_no_order() -> None:
    out, _ = run_alone(
        """
        number = 0
        for _ in range(20):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                while True:
                    sys.stdout.write(f"{number}\\n")
                    number += 1
            except KeyboardInterrupt:
                pass
        """
    )

    numbers = [int(line) for line in out.split()]
    assert sorted(set(numbers)) == list(range(numbers[-1] + 1))
    assert numbers == sorted(numbers)


@pytest.mark.slow
def test_after_the_end_old_references_still_write_somewhere() -> None:
    out, _ = run_alone(
        """
        kept = sys.stdout
        sys.stdout.write("captured\\n")
        output.stop()
        kept.write("to where stdout led before\\n")
        """
    )

    assert out == "to where stdout led before\ncaptured\n"
