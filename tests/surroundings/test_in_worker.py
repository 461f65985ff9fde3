"""What earlier cells left in a process and in no variable holds in the worker, and comes back: real processes.

packages.py has what they import.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel
from tests.surroundings.packages import PACKAGES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def packages(home: Path, kernel: Kernel) -> None:
    for name, text in PACKAGES.items():
        path = home / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kernel.check(f"import sys; sys.path.insert(0, {str(home / 'lib')!r})")


@pytest.mark.slow(18)
def test_arguments_that_an_earlier_cell_set_are_what_the_cell_parses(kernel: Kernel) -> None:
    kernel.check("import argparse\nsys.argv = ['train.py', '--steps', '7']")
    kernel.check(
        "%%gpufit train\n"
        "parser = argparse.ArgumentParser(); parser.add_argument('--steps', type=int)\n"
        "steps = parser.parse_args().steps\n"
        "sys.argv.append('--seen')\n"
    )
    kernel.check("assert steps == 7 and sys.argv == ['train.py', '--steps', '7', '--seen']")


def test_the_cell_sees_the_kernels_arguments_and_not_the_workers(kernel: Kernel) -> None:
    kernel.check("sys.argv[:] = ['ipykernel_launcher.py', '-f', 'kernel.json']")
    kernel.check("%%gpufit train\nargv = list(sys.argv)\n")
    kernel.check("assert argv == ['ipykernel_launcher.py', '-f', 'kernel.json'] == sys.argv")


def test_a_state_that_objects_share_through_their_class(kernel: Kernel) -> None:
    kernel.check("import borg\nstate = borg.State(device='cpu', step=0)")
    kernel.check(
        "%%gpufit train\n"
        "again = borg.State()\n"  # as a library's function makes one
        "assert again.device == 'cpu' and again.__dict__ is state.__dict__ is borg.State._shared\n"
        "again.step = 5\n"
    )
    kernel.check("assert state.step == 5 and borg.State().step == 5 and state.__dict__ is borg.State._shared")
    kernel.check("assert again.__dict__ is state.__dict__")


def test_a_state_that_the_cell_is_the_first_to_make(kernel: Kernel) -> None:
    kernel.check("import borg\nborg.State._shared.clear()")
    kernel.check("%%gpufit train\nmade = borg.State(device='cpu', step=3)\n")
    kernel.check("assert borg.State().step == 3 and made.__dict__ is borg.State._shared")


def test_what_was_registered_in_an_earlier_cell(kernel: Kernel) -> None:
    kernel.check("import shelf\nshelf.register('mine')\nfirst = shelf.make('first')")
    kernel.check(
        "%%gpufit train\n"
        "mine = shelf.make('mine').name\n"
        "assert shelf.make('first') is shelf.books.FIRST is first, 'what importing makes is the worker\\'s own'\n"
        "shelf.register('of the cell')\n"
    )
    kernel.check("assert mine == 'mine' and shelf.make('of the cell').name == 'of the cell'")
    kernel.check("assert shelf.make('first') is shelf.books.FIRST is first")


def test_the_one_object_of_a_class_that_a_call_made(kernel: Kernel) -> None:
    """As qiskit's gates, which pickle finds by the class that everybody knows."""
    kernel.check("import gates\ngate = gates.Hadamard()")
    kernel.check("%%gpufit train\nthere = gate is gates.Hadamard()\nsecond = gates.Hadamard()")
    kernel.check("assert there and gate is second is gates.Hadamard()")


def test_a_module_that_refuses_to_be_asked_for_anything(kernel: Kernel) -> None:
    """As speechbrain's in place of packages that are not installed."""
    ran = kernel.check("import lazy_all")
    trained = kernel.check("%%gpufit train\nlooked = 'lazy_all.inside' in sys.modules")
    kernel.check("assert looked")
    assert "install it" not in ran.stderr + ran.stdout + trained.stderr + trained.stdout


def test_what_an_object_of_a_module_keeps_under_names_with_underscores(kernel: Kernel) -> None:
    """As absl keeps its flags."""
    kernel.check("from flags_of import FLAGS\nFLAGS.define('rate', 3)\nFLAGS.parse()")
    kernel.check("%%gpufit train\nfound = FLAGS.rate\nFLAGS.define('late', found + 1)")
    kernel.check("import flags_of\nassert (found, FLAGS.late, FLAGS is flags_of.FLAGS) == (3, 4, True)")


def test_an_attribute_that_a_cell_put_back_into_a_module_before_another_was_imported_that_needs_it(
    kernel: Kernel,
) -> None:
    """`np.float = float`, for a package of old: it stands there before what was imported after it arrives."""
    kernel.check("import newer\nsetattr(newer, 'old', [7])\nimport needs_old\nkept = needs_old.Kept()")
    kernel.check("%%gpufit train\nspan = kept.span()\n")
    kernel.check("assert span == [7]")


def test_a_seed_that_an_earlier_cell_set_in_a_librarys_own_generator_holds_and_the_kernel_draws_on(
    kernel: Kernel,
) -> None:
    kernel.check("import numpy as np, draws_at_once, draws_of\ndraws_of.seed(3)")
    kernel.check("%%gpufit train\nfirst = draws_of.draw()\n")
    kernel.check("assert [first, draws_of.draw()] == np.random.default_rng(3).random(2).tolist()")


def test_what_a_plug_in_registered_when_an_earlier_cell_imported_it(kernel: Kernel) -> None:
    kernel.check("import shelf")
    kernel.check("import shelf_plugin")
    kernel.check("%%gpufit train\nname = shelf.make('plugged').name\n")
    kernel.check("assert name == 'plugged'")


def test_methods_that_another_module_adds_to_a_class(kernel: Kernel) -> None:
    kernel.check("from learner import Learner\nimport learner_more\nlearn = Learner()")
    kernel.check("%%gpufit train\nfitted = learn.fit()\n")
    kernel.check("assert fitted == 'fitted'")


def test_modules_that_draw_numbers_when_they_are_imported_again_draw_none_of_the_cells(kernel: Kernel) -> None:
    kernel.check("from learner import Learner\nimport random, learner_noisy, lazy\nlearn = Learner()")
    kernel.check("lazy.step(); random.seed(3)")
    kernel.check("%%gpufit train\nearly = random.random(), learn.noise\nlazy.step()\nlate = random.random()\n")
    kernel.check("plain = random.Random(3)\nassert (early[0], late) == (plain.random(), plain.random())")


def test_a_module_of_a_package_that_the_cell_reaches_through_the_package(kernel: Kernel) -> None:
    kernel.check("import nest\nimport importlib; importlib.import_module('nest.inner')")  # as another library does
    kernel.check("%%gpufit train\ngot = nest.inner.call()\n")
    kernel.check("assert got == 5")


def test_what_a_module_keeps_for_the_main_thread(kernel: Kernel) -> None:
    kernel.check("import counter\nfirst = counter.name()")

    kernel.check("%%gpufit train\nsecond = counter.name()")

    kernel.check("assert (first, second, counter.name()) == ('layer_1', 'layer_2', 'layer_3')")


def test_a_stream_that_a_module_keeps_is_each_processs_own(kernel: Kernel) -> None:
    kernel.check("import says")
    kernel.check("%%gpufit train\nkept = says.stdout\nsay = kept.write\nsay('once')\n")
    assert kernel.check("assert kept is sys.stdout\nsay('twice')").stdout == "twice"


def test_attributes_that_an_earlier_cell_set(kernel: Kernel) -> None:
    kernel.check(
        "import settings_of, torch\n"
        "settings_of.LEVEL = 5; settings_of.config.rate = 9\n"
        "def loud(self, x): return 'loud'\n"
        "torch.nn.Identity.forward = loud\n"
    )
    kernel.check(
        "%%gpufit train\n"
        "found = settings_of.LEVEL, settings_of.config.rate, torch.nn.Identity()(torch.zeros(1))\n"
        "settings_of.LEVEL = 6\n"
        "import math\n"
        "math.tau_twice = 2 * math.tau; torch.nn.Identity.seen = True\n"
        "torch.nn.Flatten.forward = lambda self, x: found\n"
    )
    kernel.check(
        "import math\n"
        "assert found == (5, 9, 'loud') and settings_of.LEVEL == 6\n"
        "assert math.tau_twice == 2 * math.tau and torch.nn.Identity.seen and torch.nn.Flatten()(0) is found\n"
    )


def test_a_container_with_attributes_of_its_own_goes_with_both(
    kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None
) -> None:
    """As research code keeps its configuration: `from config import config`, and cells that change it."""
    kernel.check(
        "import os, time, both_of\nfrom both_of import config, row\nconfig.rate = 3; config.motion.length = 10\n"
        "config.motion.deep.flat.inner = 7; row.append(2); row.names.append('two')\n"
    )
    sent = kernel.send(
        "%%gpufit train --name both\n"
        "for step in range(3):\n"
        "    assert config is both_of.C and (config.rate, config.motion.length) == (3, 10), vars(config)\n"
        "    assert (config['motion'], config.motion.deep.flat.inner) == (config.motion, 7)\n"
        "    assert (row, row.names) == ([1, 2], ['one', 'two']) and row is both_of.row\n"
        "    config.motion.steps = config.motion.get('steps', 0) + 1; config.made = both_of.Both()\n"
        "    print('step', step)\n"
        f"    while step == 1 and not os.path.exists({str(hold)!r}): time.sleep(0.01)\n"
    )
    kernel.until(sent, "step 1")
    assert gpufit(env, "release", "both").returncode == 0
    kernel.finish(sent)
    hold.touch()
    kernel.check("%gpufit resume both")
    kernel.check("assert config is both_of.C and config.motion.steps == config['motion']['steps'] == 3, vars(config)")
    kernel.check("assert type(config.made) is both_of.Both and config['made'] is config.made")


@pytest.mark.parametrize("rate", [None, 5])
def test_options_that_a_module_of_the_users_parsed_are_what_the_training_makes_of_them(
    kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None, rate: int | None
) -> None:
    """`from options import args` in every file, and a `main()` that writes into them."""
    kernel.check("for name in 'loop_of', 'options_of': sys.modules.pop(name, None)")
    kernel.check("from options_of import args\nfrom loop_of import main\n" + (f"args.rate = {rate}" if rate else ""))
    sent = kernel.send(f"%%gpufit train --name options{rate}\nmain({str(hold)!r})\n")
    kernel.until(sent, "step 1")
    assert gpufit(env, "release", f"options{rate}").returncode == 0
    kernel.finish(sent)
    hold.touch()
    kernel.check(f"%gpufit resume options{rate}")
    kernel.check("import loop_of, options_of; assert options_of.args is args is loop_of.args")
    kernel.check(f"assert (str(args.out), args.inner.n, args.seed) == ('runs/{rate or 1} 2', 3, 3), vars(args)")
    kernel.check("assert options_of.beside is loop_of.beside and options_of.beside.last == 2, options_of.beside")


def test_no_half_of_an_objects_state_goes(kernel: Kernel) -> None:
    """As plum's functions, and so fastai's transforms: registered in a table that nobody sees when they are called."""
    kernel.check("import table_of\nassert table_of.numbers() == [1]")
    kernel.check("%%gpufit train\nassert table_of.numbers() == [1]; once = table_of.numbers()\n")
    kernel.check("assert table_of.numbers() == once == [1]")
    # As numba's runtime: what it has compiled cannot go along, so that the mark that it has must not.
    kernel.check("import os, runtime_of\nassert runtime_of.runtime.use() == os.getpid()")
    kernel.check("%%gpufit train\nassert runtime_of.runtime.use() == os.getpid()")


def test_what_cannot_travel_is_named_and_the_cell_runs(kernel: Kernel) -> None:
    kernel.check(
        "import threading, settings_of\nsettings_of.lock, settings_of.LEVEL = threading.Lock(), 7\n"
        "settings_of.lock.acquire()\n"
        "settings_of.watch()\n"
    )
    ran = kernel.check(
        "%%gpufit train\nassert settings_of.lock is settings_of.watcher is None and settings_of.LEVEL == 7\n"
    )
    assert "settings_of.lock was set in an earlier cell, and does not travel: it is a lock" in ran.shown
    assert "watcher" not in ran.shown


def test_the_environment_and_the_directory_that_a_cell_left(kernel: Kernel, home: Path) -> None:
    kernel.check("import os\nos.environ['MINE'] = 'one'")
    kernel.check(
        "%%gpufit train\n"
        "assert os.environ['MINE'] == 'one'; os.environ['MINE'] = 'two'; os.mkdir('sub'); os.chdir('sub')\n"
    )
    kernel.check("assert os.environ['MINE'] == 'two' and os.getcwd().endswith('sub'); os.chdir('..')")


def test_a_future_import_of_an_earlier_cell_holds_in_the_cell(kernel: Kernel) -> None:
    kernel.check("from __future__ import annotations\nb = 1")
    kernel.check("%%gpufit train\ndef f(x: nothing_of_this_name): pass\nfound = f.__annotations__\n")
    kernel.check("assert found == {'x': 'nothing_of_this_name'}")


def test_a_future_import_of_the_cell_holds_in_the_next_ones(second_kernel: Kernel) -> None:
    second_kernel.check("%%gpufit train\nfrom __future__ import annotations\nc = 1\n")
    second_kernel.check("def g(x: nothing_of_this_name): pass")


def test_a_training_that_is_released_goes_on_with_them(
    kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None
) -> None:
    kernel.check(
        "import borg, os, time, argparse\n"
        "sys.argv = ['train.py', '--steps', '9']; os.environ['MINE'] = 'kept'\n"
        "borg.State._shared.clear(); state = borg.State(device='cpu', step=0); seen = []\n"
    )
    sent = kernel.send(
        "%%gpufit train --name around\n"
        "for step in range(6):\n"
        "    borg.State().step += 1\n"
        "    seen.append((sys.argv[-1], borg.State().__dict__ is state.__dict__, state.step))\n"
        "    print('step', step)\n"
        "    if step == 2:\n"
        f"        while not os.path.exists({str(hold)!r}):\n"
        "            time.sleep(0.01)\n"
    )
    kernel.until(sent, "step 2")
    assert gpufit(env, "release", "around").returncode == 0
    kernel.finish(sent)
    hold.touch()
    kernel.check("%gpufit resume around")
    kernel.check("assert seen == [('9', True, n) for n in range(1, 7)], seen")
    kernel.check("assert state.step == 6 == borg.State().step and os.environ['MINE'] == 'kept'")
    kernel.check("assert sys.argv == ['train.py', '--steps', '9']")


def test_what_all_loggers_write_to_goes_along_and_comes_back(kernel: Kernel, home: Path) -> None:
    kernel.check(
        "import logging, sys\nwhere = [logging.StreamHandler(sys.stdout), logging.FileHandler('root.log')]\n"
        "logging.basicConfig(level=logging.INFO, format='%(message)s', handlers=where, force=True)\n"
        "log = logging.getLogger('training')\nlog.info('before')\ndel where"
    )
    ran = kernel.check(
        "%%gpufit train\nlog.info('inside')\nlogging.root.addHandler(logging.FileHandler('more.log'))\n"
        "log.info('more')\n"
    )
    assert ran.stdout == "inside\nmore\n"
    assert kernel.check("log.info('after')").stdout == "after\n"
    assert (home / "root.log").read_text() == "before\ninside\nmore\nafter\n"
    assert (home / "more.log").read_text() == "more\nafter\n"
    kernel.check(
        "%%gpufit train\nnames = [getattr(one, 'baseFilename', '') for one in logging.root.handlers]\n"
        "more = next(one for one, name in zip(logging.root.handlers, names) if name.endswith('more.log'))\n"
        "logging.root.removeHandler(more); log.info('last')\n"
    )
    assert (home / "more.log").read_text() == "more\nafter\n"
    kernel.check("log.info('end')\nfor one in logging.root.handlers[:]: logging.root.removeHandler(one)")
    assert (home / "more.log").read_text() == "more\nafter\n"
    assert (home / "root.log").read_text() == "before\ninside\nmore\nafter\nlast\nend\n"


def test_a_handler_of_the_notebooks_own_class_writes_in_the_worker(kernel: Kernel) -> None:
    kernel.check(
        "import logging\nclass Above(logging.Handler):\n"
        "    def emit(self, record): print('above', self.format(record))\n"
        "mine = logging.getLogger('mine'); mine.addHandler(Above()); logging.root.addHandler(Above())\n"
    )
    assert kernel.check("%%gpufit train\nmine.warning('one')").stdout == "above one\n" * 2
    assert kernel.check("mine.warning('two')").stdout == "above two\n" * 2
    kernel.check("logging.root.removeHandler(logging.root.handlers[-1]); mine.removeHandler(mine.handlers[-1])")


def test_a_module_that_was_imported_after_an_earlier_cell_had_replaced_what_it_takes(kernel: Kernel) -> None:
    kernel.check(
        "import shelf.books\n"
        "class Book:\n    def __init__(self, name): self.name = 'my ' + name\n"
        "shelf.books.make = lambda name: Book(name)\n"
        "shelf.books.Book = Book\n"
        "import shelf_user"
    )
    kernel.check("%%gpufit train\nfound = [shelf_user.name(), shelf_user.Mine('own').name]\n")
    kernel.check("assert found == [shelf_user.name(), shelf_user.Mine('own').name] == ['my first', 'my own'], found")


def test_what_an_earlier_cell_put_into_a_module_of_which_the_cell_says_nothing(kernel: Kernel) -> None:
    kernel.check("import inner_most, uses_it; inner_most.make = lambda: 'mine'; from uses_it import call")
    kernel.check("%%gpufit train\nfound = call()\n")
    kernel.check("assert found == call() == 'mine', found")


def test_what_calls_set_and_what_is_added_to_pythons_own_goes_along_and_comes_back(kernel: Kernel) -> None:
    kernel.check(
        "import builtins, decimal, gc, logging, os, signal, sys, numpy as np\n"
        "def heard(number, frame): caught.append(number)\n"
        "caught = []; before = signal.signal(signal.SIGUSR1, heard)\n"
        "builtins.shout = 'early'; gc.set_threshold(700, 8, 9); np.seterr(divide='raise'); rights = os.umask(0o027)\n"
        "logging.getLogger('talks').setLevel(40)\n"
    )
    ran = kernel.check(
        "%%gpufit train\n"
        "print(shout, gc.get_threshold(), np.geterr()['divide'], oct(os.umask(0o022)))\n"
        "print(logging.getLogger('talks').level)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "builtins.shout = 'late'; sys.tracebacklimit = 3; gc.disable(); np.seterr(divide='ignore')\n"
        "decimal.getcontext().prec = 5; logging.getLogger('talks').setLevel(10)\n"
        "before = signal.signal(signal.SIGUSR2, lambda number, frame: caught.append(number))\n"
    )
    assert ran.stdout == "early (700, 8, 9) raise 0o27\n40\n"
    ran = kernel.check(
        "os.kill(os.getpid(), signal.SIGUSR2)\n"
        "print(shout, sys.tracebacklimit, gc.isenabled(), np.geterr()['divide'], decimal.getcontext().prec)\n"
        "print(oct(os.umask(rights)), logging.getLogger('talks').level, len(caught))\n"
        "del builtins.shout, sys.tracebacklimit; gc.enable(); gc.set_threshold(700, 10, 10); np.seterr(divide='warn')\n"
        "decimal.setcontext(decimal.DefaultContext); logging.getLogger('talks').setLevel(0)\n"
        "for one in (signal.SIGUSR1, signal.SIGUSR2): signal.signal(one, signal.SIG_DFL)\n"
    )
    assert ran.stdout == "late 3 False ignore 5\n0o22 10 2\n"


def test_what_cannot_be_opened_in_the_worker_costs_the_notebook_no_name(kernel: Kernel) -> None:
    """A name that only what was set in a library uses came not, and was deleted in the notebook: the cell had none."""
    kernel.check(
        "import email, os, sys\n"
        "HERE = {'pid': os.getpid()}\n"
        "def open_again(pid):\n    import os\n    return 1 // (pid == os.getpid())\n"
        "class OnlyHere:\n    def __reduce__(self): return open_again, (os.getpid(),)\n"
        "email.only_here, email.helper = OnlyHere(), lambda: HERE['pid']\n"
    )
    ran = kernel.check("%%gpufit train\nz = 3\n")
    assert "could not be opened in the worker" in ran.shown
    assert (
        kernel.check("print(z, email.helper() == os.getpid())\ndel email.only_here, email.helper").stdout == "3 True\n"
    )
