"""Run notebooks in a real kernel and show in the terminal what they show: `python examples/run.py NOTEBOOK ...`.

Several of one folder share the kernel, which forgets its variables between them: torch is imported once. The executed
copies, with their plots, are written to build/demo/. With `--story` it tells what a reader of ten lines wants: what a
cell that trains shows, what the others print, and where the picture is.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

OUT = Path("build/demo")
TOLD = ("estimating", "queued", "running", "done", "failed", "stopped", "lost")  # states of a job, in a story


class ShowingClient(NotebookClient):
    """Runs a notebook and prints each output as it comes."""

    name = ""
    story = False
    _state = ""  # of the job, as its line said last
    _estimate = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pictures: list[Path] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        match msg["msg_type"]:
            case "stream":
                print(content["text"], end="", flush=True)
            case "display_data" | "execute_result" | "update_display_data":
                self._show(content["data"], content.get("metadata", {}), cell, cell_index)
        return super().process_message(msg, cell, cell_index)

    def _show(self, data: dict[str, Any], metadata: dict[str, Any], cell: Any, cell_index: int) -> None:
        """Print a display as text; a picture goes beside the executed notebook."""
        if "image/png" in data:
            picture = OUT / f"{self.name}-{cell_index}.png"
            picture.write_bytes(base64.b64decode(data["image/png"]))
            self.pictures.append(picture)
            if not self.story:
                print(f"Picture: {picture}", flush=True)
            return
        text, state = data.get("text/plain", ""), metadata.get("gpufit", {}).get("state", "")
        if not self.story or (cell.source.startswith("%%") and self._is_news(text, state)):
            print(text, flush=True)

    def _is_news(self, text: str, state: str) -> bool:
        """Of a line that changes in place, whether it says something else now; it waits for somebody, say."""
        before, self._state = self._state, state or self._state
        if not state:
            self._estimate = text
        return not state or (state in TOLD and state != before and not (self._estimate and self._estimate in text))

    def show_cell(self, cell: Any, cell_index: int) -> None:
        """Print a cell's source as it starts."""
        first = cell.source.partition("\n")[0]
        if cell.cell_type == "markdown":
            if not self.story:
                print(f"\n{cell.source}", flush=True)
            elif cell_index == 0:
                print(f"\n{first.lstrip('# ')}:", flush=True)
        elif not self.story:
            print(f"\nIn [{cell_index}] {first} ...", flush=True)
        elif first.startswith("%%"):
            print(first, flush=True)


def run(source: Path, kernel: KernelManager, *, story: bool) -> None:
    """Run one notebook to its end, and keep what it shows."""
    notebook = nbformat.read(source, as_version=4)
    client = ShowingClient(
        notebook,
        km=kernel,
        timeout=600,
        extra_arguments=["--log-level=ERROR"],  # else it warns of who might listen
        resources={"metadata": {"path": str(source.parent)}},
        on_cell_start=lambda cell, cell_index: client.show_cell(cell, cell_index),
    )
    client.name, client.story = source.stem, story
    client.execute()
    target = OUT / source.name
    nbformat.write(notebook, target)
    by_hand = f"GPUFIT_DEVICES=cpu:2x4GiB {_here(Path(sys.prefix))}/bin/jupyter lab {source}"
    if story:
        print(f"Its picture: {' '.join(map(str, client.pictures)) or target}\nTo run it yourself: {by_hand}")
    else:
        print(f"The executed notebook: {target}\nRun it by hand: {by_hand}")


def _here(path: Path) -> Path:
    """As it is typed in this directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    kernel = KernelManager()
    story = sys.argv[1:2] == ["--story"]
    try:
        for source in map(Path, sys.argv[1 + story :]):
            run(source, kernel, story=story)
            NotebookClient(new_notebook(cells=[new_code_cell("%reset -f")]), km=kernel).execute()
    finally:
        if kernel.has_kernel:
            kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
