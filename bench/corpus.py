"""Programs by others, tried as their authors wrote them: `python bench/corpus.py [FOLDER] [--only WORD] [--quick]`.

FOLDER has programs cut into cells by `# %%` lines, or notebooks; one cell of each is tagged: `# %% train`, or in a
notebook by the tag "train". Without FOLDER: those of tests/corpus. Each is run plain, twice; under the magic;
estimated; and killed in its loop and resumed. The table says what differed first; bench/results/corpus.json has the
rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from dataclasses import asdict
from pathlib import Path

from common import package_root, show_table, write_results

package_root()
from jupyter_gpufit.units import format_bytes  # noqa: E402
from tests.corpus.program import Program, read_all  # noqa: E402
from tests.corpus.trial import PLAIN, Trial, try_program, try_quickly  # noqa: E402

OWN = Path(__file__).resolve().parents[1] / "tests" / "corpus" / "programs"
WIDTH = 60  # of what differed, in the table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=OWN)
    parser.add_argument("--only", default="", help="programs whose name holds this word")
    parser.add_argument("--quick", action="store_true", help="in two kernels each, where nothing differs")
    parser.add_argument("--name", default="corpus", help="of the file in bench/results")
    options = parser.parse_args()
    trials = []
    for program in [one for one in read_all(options.folder) if options.only in one.name]:
        if missing := [name for name in program.needs if importlib.util.find_spec(name) is None]:
            print(f"{program.name}: left out, for {', '.join(missing)} is not installed")
            continue
        trials.append(tried(program, quick=options.quick))
        print(_line(trials[-1]), flush=True)
        write_results(options.name, [asdict(trial) for trial in trials], said=False)  # should the next one end all
    report(trials, options.name)


def tried(program: Program, *, quick: bool) -> Trial:
    with tempfile.TemporaryDirectory(prefix="gpufit-corpus-") as home:
        return (try_quickly if quick else try_program)(program, Path(home))


def report(trials: list[Trial], name: str) -> None:
    ran = [trial for trial in trials if not trial.plain]
    saved = [trial for trial in ran if not trial.ended_first]
    columns = {
        "the same as plain": (ran, [trial for trial in ran if not trial.same]),
        "an estimate": (ran, [trial for trial in ran if not trial.estimate]),
        "saved, killed, resumed to the bit": (saved, [trial for trial in saved if not trial.resumed]),
    }
    print()
    show_table(
        ("", "of", "programs", "share"),
        [
            (what, len(of), len(good), f"{len(good) / len(of):.0%}" if of else "-")
            for what, (of, good) in columns.items()
        ],
    )
    write_results(name, [asdict(trial) for trial in trials])


def _line(trial: Trial) -> str:
    if trial.plain:
        return f"{trial.name}: does not run without us: {trial.plain}"
    parts = [f"{what}: {text[:WIDTH] or good}" for what, text, good in _columns(trial)]
    if trial.inexact:
        parts.append(f"differ from run to run: {', '.join(trial.inexact)[:WIDTH]}")
    if trial.reference != PLAIN:
        parts.append(f"compared with {trial.reference}")
    return f"{trial.name}: " + "; ".join(parts)


def _columns(trial: Trial) -> list[tuple[str, str, str]]:
    """What was tried, what went wrong with it, and what there is to say where nothing did."""
    took = {what: f"{seconds:.1f} s" for what, seconds in trial.seconds.items()}
    need = "uses no GPU" if trial.need is None else f"{format_bytes(trial.need)}, {trial.confidence} confidence"
    return [
        ("same", trial.same, "yes"),
        ("estimate", trial.estimate, f"{need}, in {took.get('estimate', '?')}"),
        ("resumed", trial.resumed, f"yes, saved after {took.get('saved', '?')}"),
    ]


if __name__ == "__main__":
    main()
