"""A cell under %%gpufit train does what it would have done in the kernel: real kernel, real worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel

pytestmark = pytest.mark.slow


def test_a_plain_training_cell_trains_the_very_objects_of_the_notebook(kernel: Kernel) -> None:
    kernel.check(
        "import torch; torch.manual_seed(0)\n"
        "model = torch.nn.Linear(4, 1); also = {'the model': model}; weight = model.weight\n"
        "before = weight.detach().clone()\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1); history = []\n"
        "x, y = torch.randn(64, 4), torch.randn(64, 1)\n"
    )
    ran = kernel.check(
        "%%gpufit train --name plain\n"
        "model.to('cuda')\n"
        "for step in range(5):\n"
        "    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
        "    opt.zero_grad(); loss.backward(); opt.step()\n"
        "    history.append(loss.item()); print('step', step)\n"
    )
    assert ran.stdout == "".join(f"step {step}\n" for step in range(5))
    assert "plain: done" in ran.shown
    kernel.check(
        "assert also['the model'] is model and model.weight is weight\n"
        "assert not torch.equal(weight, before) and weight.device.type == 'cuda'\n"
        "assert len(history) == 5 and step == 4 and history[-1] < history[0]\n"
        "assert opt.param_groups[0]['params'][0] is weight\n"
    )


def test_classes_of_earlier_cells_are_found_by_their_names_and_display_may_be_a_module(kernel: Kernel) -> None:
    """`torch.save` looks for the class of a model in `__main__`, though the cell itself never names it."""
    kernel.check("import torch\nfrom IPython import display\nclass Net(torch.nn.Linear):\n    pass\nnet = Net(2, 1)\n")
    ran = kernel.check(
        "%%gpufit train\nimport io\nsaved = io.BytesIO()\ntorch.save(net, saved)\n"
        "display.display('shown')\nprint(len(saved.getvalue()) > 100)\n"
    )
    assert ran.stdout == "True\n" and "shown" in ran.shown
    kernel.check("assert type(net) is Net\ndel display\n")


def test_its_last_loss_is_the_one_that_it_ended_with(kernel: Kernel) -> None:
    """Also of a cell that is quicker than any look at it, and in a function, whose variables are gone by then."""
    kernel.check(
        "net = torch.nn.Linear(4, 1); sgd = torch.optim.SGD(net.parameters(), lr=0.1); last = []\n"
        "def fit():\n"
        "    for step in range(7):\n"
        "        loss = net(torch.ones(2, 4)).square().mean()\n"
        "        sgd.zero_grad(); loss.backward(); sgd.step()\n"
        "    last.append(loss.item())\n"
    )
    kernel.check("%%gpufit train --name quick\nfit()\n")
    told = next(job for job in json.loads(kernel.check("%gpufit jobs --json").shown) if job["name"] == "quick")
    kernel.check(f"assert last == [{told['loss']['value']!r}], last")
    assert told["loss"]["name"] == "loss" and told["progress"]["step"] == 7 and {"loss", "lr"} <= {*told["metrics"]}


def test_what_changes_in_place_changes_in_the_kernels_own_memory(kernel: Kernel) -> None:
    kernel.check(
        "import numpy as np\nt = torch.zeros(1000); view = t[10:20]; address = t.data_ptr()\n"
        "a = np.zeros(5); from_a = torch.from_numpy(a); d = {'l': [1]}; inner = d['l']\n"
    )
    kernel.check("%%gpufit train\nt[10] = 7\nfrom_a[0] = 3\nd['l'].append(2)\n")
    kernel.check("assert view[0] == 7 and t.data_ptr() == address and a[0] == 3 and inner == [1, 2]")


def test_the_result_is_the_kernels_own_to_the_bit(kernel: Kernel) -> None:
    cell = (
        "torch.manual_seed(1)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 2))\n"
        "adam = torch.optim.AdamW(net.parameters())\n"
        "for _ in range(20):\n"
        "    adam.zero_grad(); net(torch.randn(16, 8)).pow(2).mean().backward(); adam.step()\n"
    )
    digest = "print(sum(float(p.double().abs().sum()) for p in net.parameters()).hex())"
    kernel.check("import torch\n" + cell)
    plain = kernel.check(digest).stdout
    kernel.check("%%gpufit train\n" + cell)
    assert kernel.check(digest).stdout == plain


def test_a_seed_of_an_earlier_cell_holds_and_the_generators_go_on_afterwards(kernel: Kernel) -> None:
    draw = "[random.random(), numpy.random.rand(), torch.rand(1).item()]"
    seed = "import random, numpy, torch\nrandom.seed(1); numpy.random.seed(2); torch.manual_seed(3)\n"
    kernel.check(f"{seed}plain = {draw} + {draw} + {draw}")
    kernel.check(f"{seed}first = {draw}")
    kernel.check(f"%%gpufit train\nsecond = {draw}\n")
    kernel.check(f"assert first + second + {draw} == plain and not any('gpufit' in name for name in globals())")


def test_notebook_functions_classes_and_their_globals_travel(kernel: Kernel) -> None:
    kernel.check(
        "SCALE = 3\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__(); self.lin = torch.nn.Linear(2, 2)\n"
        "    def forward(self, x): return self.lin(x) * SCALE\n"
        "def make(): return Net()\n"
    )
    kernel.check("%%gpufit train\nfresh = make()\nout = fresh(torch.ones(1, 2)).shape\n")
    kernel.check("assert type(fresh) is Net and tuple(out) == (1, 2) and fresh(torch.ones(1, 2)).shape == out")


def test_an_exception_shows_the_cells_own_lines_and_keeps_what_was_computed(kernel: Kernel) -> None:
    ran = kernel.run(
        "%%gpufit train\nreached = 1\ndef fail(n):\n    return n / 0  # here it breaks\nfail(reached)\nreached = 2\n"
    )
    assert ran.ename == "ZeroDivisionError"
    assert "here it breaks" in ran.traceback and "fail(reached)" in ran.traceback
    assert "jupyter_gpufit" not in ran.traceback
    assert "4" in ran.traceback.split("here it breaks")[0].splitlines()[-1]  # the line's number in the notebook
    kernel.check("assert reached == 1")


def test_magics_shell_commands_and_top_level_await_work(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\nimport asyncio\nawait asyncio.sleep(0)\n!echo from the shell\n%time nothing = 1\n"
    )
    assert "from the shell" in ran.stdout and "Wall time" in ran.stdout


def test_a_cell_magic_may_stand_above(kernel: Kernel) -> None:
    ran = kernel.check("%%time\n%%gpufit train --name below\nbelow_time = 1\nprint('here')\n")
    assert "here" in ran.stdout and "Wall time" in ran.stdout and "below: done" in ran.shown
    kernel.check("assert below_time == 1")
    ran = kernel.run("%%time\n%%gpufit train\n1 / 0\n")
    assert "ZeroDivisionError" in ran.traceback and "jupyter_gpufit" not in ran.traceback, ran.traceback
    kernel.check("%%capture kept\n%%gpufit train\nprint('for later')\n")
    kernel.check("assert kept.stdout == 'for later\\n', kept.stdout")


def test_a_line_inside_a_cell_magic_is_not_awaited(kernel: Kernel) -> None:
    assert "below" in kernel.check("%%time\n%gpufit jobs\n").shown


def test_a_cell_magic_may_stand_inside(kernel: Kernel) -> None:
    kernel.check("inside = 20")
    ran = kernel.check("%%gpufit train\n%%time\nmore = inside + 1\nprint('body')\n")
    assert "Wall time" in ran.stdout and "body" in ran.stdout
    kernel.check("assert more == 21")
    kernel.check("%%gpufit train\n\n%%capture out\nprint('caught')\n")
    kernel.check("assert out.stdout == 'caught\\n', out")
    kernel.check("%%gpufit train\n%%writefile x.txt\nthe whole text\n")
    kernel.check("assert open('x.txt').read() == 'the whole text\\n'")


def test_an_exception_inside_a_cell_magic_is_the_cells(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train\n%%time\nx = 1\nx / 0\n")
    assert ran.ename == "ZeroDivisionError" and "jupyter_gpufit" not in ran.traceback
    ran = kernel.run("%%gpufit train\n%%capture out\nx / 0\n")
    assert ran.ename == "ZeroDivisionError" and "jupyter_gpufit" not in ran.traceback


def test_names_inside_text_are_found_and_locks_beside_them_do_no_harm(kernel: Kernel) -> None:
    kernel.check("import threading\nhidden = 20; beside = threading.Lock(); beside.acquire()")
    ran = kernel.check("%%gpufit train\nexec('answer = hidden + 1')\n%time more = hidden + 2\n")
    assert "Wall time" in ran.stdout
    kernel.check("assert answer == 21 and more == 22")


@pytest.mark.slow(10)
def test_a_small_cell_without_a_spare_does_not_wait_for_torchs_compiler(home: Path) -> None:
    with running_kernel(
        environment(home, GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_SPARE_WORKER="never"), home, cold=True
    ) as kernel:
        # Not as one name: a module that a cell reaches through its package is there for it.
        ran = kernel.check(
            "%%gpufit train\nimport sys\nprint([at for at in sys.modules if at.split('.') == ['torch', '_dynamo']])"
        )
    assert ran.stdout == "[]\n"  # importing it takes longer than the rest of the start


def test_a_syntax_error_starts_nothing(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train\nok = 1\nfor x in\n")
    assert ran.ename == "SyntaxError" and "for x in" in ran.traceback and not ran.displays


@pytest.mark.parametrize("line", ["return 5", "break", "yield 5", "global ok"])
def test_an_error_of_the_compiler_is_the_cells_own_too(kernel: Kernel, line: str) -> None:
    ran = kernel.run(f"%%gpufit train\nok = 1\n{line}\n")
    assert ran.ename == "SyntaxError" and line in ran.traceback and "the cell:3" in ran.traceback
    assert "jupyter_gpufit" not in ran.traceback and not ran.displays


def test_an_unknown_name_is_refused_before_anything_starts(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train\nprint('started')\nmodle.train()\n")
    assert ran.ename == "NameNotDefined" and ran.stdout == ""
    assert "line 3" in ran.traceback
    assert "model" in ran.traceback.split("Did you mean")[1]


@pytest.mark.parametrize("line", ["%gpufit status", "if ok:\n    %gpufit checkpoint", "jobs = %gpufit jobs"])
def test_our_own_magic_inside_the_cell_is_refused_before_anything_starts(kernel: Kernel, line: str) -> None:
    ran = kernel.run(f"%%gpufit train\nok = 1\n{line}\n")
    assert ran.ename == "MagicInCell" and not ran.displays
    assert f"(line {2 + len(line.splitlines())} of the cell)" in ran.evalue


def test_what_cannot_travel_is_named_with_its_line(kernel: Kernel) -> None:
    kernel.check("import threading\nholder = {'inside': [threading.Lock()]}; holder['inside'][0].acquire()")
    ran = kernel.run("%%gpufit train\npass\nholder['inside']\n")
    assert ran.ename == "CannotTravel"
    assert "line 3" in ran.traceback and "holder['inside'][0]" in ran.traceback and "lock" in ran.traceback


def test_a_result_that_cannot_come_back_is_named_and_the_rest_comes(kernel: Kernel) -> None:
    ran = kernel.check("%%gpufit train\nimport threading\nbolt = threading.Lock()\nbolt.acquire()\nfine = 42\n")
    assert "bolt" in ran.shown
    kernel.check("assert fine == 42 and 'bolt' not in globals()")


@pytest.mark.parametrize(
    ("cell", "ename", "words"),
    [
        ("input('name? ')", "StdinNotImplementedError", "ordinary cell"),
        ("import sys; sys.exit('enough')", "SystemExit", "enough"),
        ("import os; os._exit(7)", "WorkerDied", "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "WorkerDied", "SIGKILL"),
        ("import os; os.abort()", "WorkerDied", "SIGABRT"),
    ],
)
def test_a_cell_that_ends_its_process_is_explained(kernel: Kernel, cell: str, ename: str, words: str) -> None:
    ran = kernel.run(f"%%gpufit train\nprint('before', flush=True)\n{cell}\n")
    assert ran.ename == ename and words in ran.traceback + ran.evalue
    assert kernel.check("1 + 1").result is not None


@pytest.mark.parametrize("call", ["sys.exit()", "sys.exit(0)", "warnings.simplefilter('error'); sys.exit()"])
def test_leaving_without_a_code_is_no_error(kernel: Kernel, call: str) -> None:
    ran = kernel.check(f"%%gpufit train\nimport sys, warnings\nreached = {call!r}\n{call}\n")
    assert "the cell called sys.exit()" in ran.shown and ran.stderr == "", ran
    kernel.check(f"assert reached == {call!r}")


def test_leaving_with_a_code_fails_without_advice_about_the_kernel(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train\nimport sys; sys.exit(3)\n")
    assert ran.ename == "SystemExit" and ran.evalue == "3" and ": failed" in ran.shown
    assert "Ctrl-D" not in ran.stderr + ran.traceback


def test_there_is_no_history_in_the_worker(kernel: Kernel) -> None:
    kernel.check("1 + 1")
    ran = kernel.check(
        "%%gpufit train\nfor look in (lambda: In[1], lambda: Out[1]):\n"
        "    try: look()\n    except NameError as error: print(error.name)\n"
    )
    assert ran.stdout == "In\nOut\n"


def test_more_memory_than_the_slot_has_ends_the_cell_with_the_figures(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train\nkept = []\nwhile True: kept.append(torch.ones(64 << 20))\n")
    assert ran.ename == "OutOfMemoryError" and "2.0 GiB" in ran.evalue, ran
    assert "kept.append" in ran.traceback and "jupyter_gpufit" not in ran.traceback


def test_tracebacks_show_the_lines_of_functions_of_other_cells(kernel: Kernel) -> None:
    kernel.check("def earlier(x):\n    y = x\n    return y / 0 or 'it breaks in the earlier cell'\n")
    ran = kernel.run("%%gpufit train\nimport inspect\nprint(inspect.getsource(earlier))\nearlier(1)\n")
    assert ran.ename == "ZeroDivisionError" and "y = x" in ran.stdout, ran
    assert "it breaks in the earlier cell" in ran.traceback and "Could not get source" not in ran.traceback
    assert ran.traceback.count("Cell In[") == 2, ran.traceback
    kernel.check("%%gpufit train\ndef later(x):\n    return x / 0 or 'it breaks in the later cell'\n")
    ran = kernel.run("import inspect; print(inspect.getsource(later)); later(1)")
    assert "later cell" in ran.stdout and "return x / 0" in ran.traceback
    assert ran.traceback.count("Cell In[") == 2, ran.traceback


def test_figures_and_what_cannot_be_made_again_cost_nothing_else(kernel: Kernel) -> None:
    kernel.check(
        "import torch, matplotlib.pyplot as plt\nold, old_ax = plt.subplots(); w = torch.zeros(2)\nfiles = !ls /\n"
    )
    ran = kernel.check(
        "%%gpufit train\n"
        "w += 1; fig, ax = plt.subplots(); lines = ax.plot([1, 2]); old_ax.plot([3, 4]); root = files.grep('tmp')\n"
        "class Bad:\n    def __reduce__(self): return (Bad.make, ())\n    def make(): raise ValueError('not again')\n"
        "bad = Bad()\n"
    )
    assert "bad stayed in the worker" in ran.shown and "not again" in ran.shown
    kernel.check(
        "assert w.tolist() == [1, 1] and fig.axes[0] is ax and ax.lines[0] is lines[0] and root == ['tmp']\n"
        "assert len(old_ax.lines) == 1 and old.axes[0] is old_ax and 'bad' not in globals()\n"
    )
    ran = kernel.check("plt.close('all'); fig")
    assert ran.result is not None and "image/png" in ran.result


def test_settings_of_libraries_hold_in_the_cell_and_what_it_sets_holds_afterwards(kernel: Kernel) -> None:
    kernel.check(
        "import torch, numpy, warnings, logging, pandas, matplotlib\n"
        "torch.set_default_dtype(torch.float64); numpy.seterr(divide='raise'); torch.set_grad_enabled(False)\n"
        "torch.use_deterministic_algorithms(True, warn_only=True); torch.backends.cudnn.benchmark = True\n"
        "warnings.simplefilter('error', FutureWarning); logging.basicConfig(level='INFO', format='<%(message)s>')\n"
        "pandas.set_option('display.max_rows', 7); matplotlib.rcParams['lines.linewidth'] = 3\n"
        "def settings():\n"
        "    return [torch.get_default_dtype(), numpy.geterr()['divide'], torch.is_grad_enabled(),\n"
        "        torch.is_deterministic_algorithms_warn_only_enabled(), torch.backends.cudnn.benchmark,\n"
        "        ('error', FutureWarning) in [(f[0], f[2]) for f in warnings.filters], logging.root.level,\n"
        "        pandas.get_option('display.max_rows'), matplotlib.rcParams['lines.linewidth']]\n"
        "here = settings()\n"
    )
    ran = kernel.check(
        "%%gpufit train\n"
        "there = settings(); logging.info('from the cell')\n"
        "torch.set_default_dtype(torch.float32); torch.set_grad_enabled(True)\n"
        "pandas.reset_option('display.max_rows'); matplotlib.rcdefaults(); logging.root.setLevel('WARNING')\n"
        "torch.backends.cudnn.benchmark = False; torch.use_deterministic_algorithms(False)\n"
    )
    assert ran.stderr == "<from the cell>\n"
    kernel.check(
        "assert there == here, (there, here)\n"
        "now = [torch.float32, 'raise', True, False, False, True, 30, 60, 1.5]\n"
        "assert settings() == now, settings()\n"
        "assert len(logging.root.handlers) == 1 and not any('gpufit' in name for name in globals())\n"
        "warnings.simplefilter('ignore', FutureWarning)"
    )


def test_threads_of_pools_are_waited_for_while_they_work_and_no_longer(kernel: Kernel) -> None:
    kernel.check(
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\npool, done = ThreadPoolExecutor(2), []\n"
        "def work(n):\n    time.sleep(0.5); done.append(n)\n"
    )

    ran = kernel.check("%%gpufit train\nown = ThreadPoolExecutor(1)\nown.submit(work, 1); pool.submit(work, 2)")

    assert "Waiting for 2 threads that the cell started" in ran.stdout + ran.shown
    kernel.check("assert sorted(done) == [1, 2], done")
    kernel.check("assert own.submit(len, 'a').result() == 1 == pool.submit(len, 'a').result()")


def test_a_module_that_reads_the_command_line_as_it_is_imported(kernel: Kernel) -> None:
    kernel.check(
        "import sys\nfrom pathlib import Path\n"
        "Path('reads_options.py').write_text('import argparse\\nparser = argparse.ArgumentParser()\\n'\n"
        "    'parser.add_argument(\"--lr\", required=True)\\nargs = parser.parse_args()\\n'\n"
        "    'def rate(): return args.lr\\n')\n"
        "sys.path.insert(0, ''); line, sys.argv = sys.argv, ['main.py', '--lr', '3']\n"
        "import reads_options\nfrom reads_options import args, rate\n"
    )
    kernel.check("%%gpufit train\nfound = args.lr, rate(), sys.argv[1:]")
    kernel.check("sys.argv = line\nassert found == ('3', '3', ['--lr', '3']), found")
    ran = kernel.run("%%gpufit train\nargs, rate()")
    assert "a module that it needs ends the process as it is imported (SystemExit(2))" in ran.evalue
    kernel.check("del args, rate, reads_options, line")


def test_a_pool_of_processes_that_rests_is_not_waited_for(kernel: Kernel) -> None:
    kernel.check("from concurrent.futures import ProcessPoolExecutor, wait\nimport multiprocessing, time")

    ran = kernel.check(
        "%%gpufit train\n"
        "resting = ProcessPoolExecutor(1, multiprocessing.get_context('spawn'))\n"
        "lengths = list(resting.map(len, ['a', 'bc']))\n"
    )

    assert "Waiting for" not in ran.stdout + ran.shown
    kernel.check("assert lengths == [1, 2], lengths")


def test_magics_that_earlier_cells_registered_are_there_in_the_cell(kernel: Kernel) -> None:
    kernel.check(
        "from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, register_cell_magic\n"
        "@register_cell_magic\n"
        "def only_if(line, cell):\n    if eval(line): get_ipython().run_cell(cell)\n"
        "@magics_class\n"
        "class Counting(Magics):\n"
        "    count = 0\n"
        "    @line_magic\n    def counted(self, line): self.count += 1; return self.count\n"
        "get_ipython().register_magics(Counting)\n"
        "get_ipython().register_magic_function(lambda line: line.upper(), 'line', 'upper')\n"
        "%counted\n%alias greet echo good %s\n%alias_magic tt time\n"
    )
    ran = kernel.check(
        "%%gpufit train\n%%only_if 1 < 2\nfound = %upper abc\nnumber = %counted\n%greet day\n%tt nothing = 1\n"
    )
    assert "good day" in ran.stdout and "Wall time" in ran.stdout, ran.stdout
    kernel.check("assert (found, number) == ('ABC', 2), (found, number)")
