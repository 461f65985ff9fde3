"""What a cell under %%gpufit train writes, draws and displays is shown as if the kernel had run it."""

from __future__ import annotations

import re

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow


def test_output_of_every_kind_comes_in_order(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\n"
        "import sys, os, ctypes\n"
        "print('one'); os.write(1, b'two\\n'); ctypes.CDLL(None).puts(b'three'); print('four', flush=True)\n"
        "os.system('echo five'); print('six')\n"
        "sys.stderr.write('to stderr\\n')\n"
    )
    assert ran.stdout.split() == ["one", "two", "three", "four", "five", "six"]
    assert ran.stderr == "to stderr\n"


def test_rich_displays_updates_and_the_last_expression(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\n"
        "from IPython.display import display, HTML, clear_output\n"
        "handle = display(HTML('<b>first</b>'), display_id='mine')\n"
        "handle.update(HTML('<b>second</b>'))\n"
        "del handle\n"
        "[1, 2, 3]\n"
    )
    html = [display["text/html"] for display in ran.displays if display["transient"].get("display_id") == "mine"]
    assert html == ["<b>first</b>", "<b>second</b>"]
    assert ran.result is not None and ran.result["text/plain"] == "[1, 2, 3]"


def test_a_semicolon_hides_the_last_expression(kernel: Kernel) -> None:
    assert kernel.check("%%gpufit train\n[1, 2, 3];\n").result is None


def test_a_figure_is_shown(kernel: Kernel) -> None:
    ran = kernel.check("%%gpufit train\nimport matplotlib.pyplot as plt\nplt.plot([1, 2, 1]); plt.show()\n")
    assert any("image/png" in display for display in ran.displays)


def test_a_progress_bar_redraws_its_line(kernel: Kernel) -> None:
    ran = kernel.check("%%gpufit train\nfrom tqdm import tqdm\nfor _ in tqdm(range(3), mininterval=0): pass\n")
    assert "\r" in ran.stderr and "3/3" in ran.stderr


# What leads to a bar, by the words that it is drawn with.
SHIPPED_BARS = {
    "notebook": "from tqdm.notebook import tqdm as bar",
    "auto": "from tqdm.auto import tqdm as bar",
    "autonotebook": "from tqdm.autonotebook import tqdm as bar",
    "trange": "from tqdm.notebook import trange\ndef bar(them, **options): return trange(len(them), **options)",
}
IMPORTED_BARS = {
    "shipped module": "bar = module.tqdm",
    "attribute": "import tqdm, tqdm.notebook; bar = tqdm.tqdm_notebook",
    "notebook": "from tqdm.notebook import tqdm as bar",
    "auto": "from tqdm.auto import tqdm as bar",
}


@pytest.mark.parametrize(
    ("before", "inside"), [(SHIPPED_BARS, {}), ({}, IMPORTED_BARS)], ids=["shipped", "imported in the cell"]
)
def test_a_progress_bar_for_notebooks_is_drawn_as_html(
    kernel: Kernel, before: dict[str, str], inside: dict[str, str]
) -> None:
    kernel.check("import warnings, tqdm.notebook as module; warnings.simplefilter('ignore'); bars = {}")
    for name, cell in before.items():
        kernel.check(f"{cell}\nbars[{name!r}] = bar")
    make = "".join(f"{cell}\nbars[{name!r}] = bar\n" for name, cell in inside.items())
    ran = kernel.check(
        f"%%gpufit train\n{make}for name, bar in bars.items():\n"
        "    for _ in bar(range(3), mininterval=0, desc=name): pass\n"
    )
    for name in before | inside:
        assert re.search(rf"^{name}: 100%.* 3/3 ", ran.shown, re.MULTILINE), (name, ran.shown)
    bars = [shown["text/html"] for shown in ran.displays if "<progress" in shown.get("text/html", "")]
    assert sum('value="3" max="3"' in bar and "--jp-success" in bar for bar in bars) == len(before | inside)
    assert not ran.stderr
    kernel.check("import tqdm.notebook\nassert tqdm.notebook.tqdm is tqdm.notebook.tqdm_notebook")


BARS_AND_PRINTS = """
from tqdm import tqdm
for epoch in range(4):
    for i in tqdm(range(20), desc=f"epoch {epoch}", leave=False): pass
    print("epoch", epoch)
"""


def test_what_is_written_to_two_streams_keeps_its_order(kernel: Kernel) -> None:
    plain = kernel.check(BARS_AND_PRINTS)

    ran = kernel.check("%%gpufit train\n" + BARS_AND_PRINTS)

    assert [text for name, text in ran.written if name == "stdout"] == [f"epoch {at}\n" for at in range(4)]
    assert [name for name, _ in ran.written] == [name for name, _ in plain.written][: len(ran.written)]


def test_a_bar_that_does_not_stay_leaves_nothing_and_one_that_is_broken_off_is_red(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\nfrom tqdm.auto import tqdm\n"
        "for _ in tqdm(range(3), desc='passing', leave=False): pass\n"
        "for i in tqdm(range(3), desc='broken'):\n    if i: break\n"
    )
    at_last = {shown["transient"].get("display_id"): shown["text/html"] for shown in ran.displays}
    passing, broken = (
        {shown["transient"]["display_id"] for shown in ran.displays if word in shown["text/plain"]}
        for word in ("passing", "broken")
    )
    assert [at_last[name] for name in passing] == [""]
    assert ["--jp-error" in at_last[name] for name in broken] == [True]


def test_a_progress_bar_for_notebooks_keeps_its_options_and_its_class(kernel: Kernel) -> None:
    kernel.check("from tqdm.notebook import tqdm; kept = tqdm")
    ran = kernel.check(
        "%%gpufit train\n"
        "from tqdm.notebook import tqdm\n"
        "bar = tqdm(total=2, ncols=60, colour='green', display=True)\n"
        "bar.update(2); bar.display('two of them'); bar.close()\n"
        "bar.reset(total=5)\n"
        "with tqdm(range(2), display=False) as hidden: list(hidden)\n"
        "del bar, hidden\n"
    )
    assert "two of them" in ran.shown and "accent-color:green" in str(ran.displays)
    kernel.check(
        "assert tqdm is kept and 'status_printer' in vars(tqdm) and hasattr(tqdm.status_printer(0), 'children')"
    )


def test_many_prints_a_huge_print_and_invalid_bytes(kernel: Kernel) -> None:
    ran = kernel.check("%%gpufit train\nfor i in range(20_000): print(i)\n")
    assert ran.stdout == "".join(f"{i}\n" for i in range(20_000))
    ran = kernel.check("%%gpufit train\nprint('x' * 50_000_000)\n")
    assert len(ran.stdout) == 50_000_001
    ran = kernel.check("%%gpufit train\nimport os\nos.write(1, b'caf\\xe9 \\xff\\n'); print('after')\n")
    assert ran.stdout.startswith("caf") and ran.stdout.endswith("after\n")


def test_what_it_gives_to_no_name_is_there_in_the_next_cell(kernel: Kernel) -> None:
    """The value of its last expression, and the error that ended it, with the notebook's own class."""
    kernel.check("import sys, torch\nnet = torch.nn.Linear(2, 1)\nclass Own(Exception): ...\n40")
    kernel.check("%%gpufit train\nbefore = _ + 1\n[net, before]")
    kernel.check("assert _[0] is net and __ == 40 and _[1] == before == 41 and _ is Out[max(Out)]")

    failed = kernel.run("%%gpufit train\nraise Own('too large', net)")

    assert failed.ename == "Own" and "raise Own('too large', net)" in failed.traceback
    kernel.check("assert type(sys.last_value) is Own and sys.last_value.args == ('too large', net)")
