"""Run notebooks in a real kernel and show in the terminal what they show: `python examples/run.py NOTEBOOK ...`.

Several of one folder share the kernel, which forgets its variables between them: torch is imported once. The executed
copies, with their plots, are written to build/demo/.
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


class ShowingClient(NotebookClient):
    """Runs a notebook and prints each output as it comes."""

    name = ""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        match msg["msg_type"]:
            case "stream":
                print(content["text"], end="", flush=True)
            case "display_data" | "execute_result" | "update_display_data":
                show_data(content["data"], self.name, cell_index)
        return super().process_message(msg, cell, cell_index)


def show_cell(cell: Any, cell_index: int) -> None:
    """Print a cell's source as it starts."""
    if cell.cell_type == "code":
        print(f"\n\033[1mIn [{cell_index}]\033[0m {cell.source.splitlines()[0]} ...", flush=True)
    elif cell.cell_type == "markdown":
        print(f"\n\033[2m{cell.source}\033[0m", flush=True)


def show_data(data: dict[str, Any], notebook: str, cell_index: int) -> None:
    """Print a display as text; a picture goes beside the executed notebook."""
    if "image/png" in data:
        picture = OUT / f"{notebook}-{cell_index}.png"
        picture.write_bytes(base64.b64decode(data["image/png"]))
        print(f"[picture: {picture}]", flush=True)
    else:
        print(data.get("text/plain", ""), flush=True)


def run(source: Path, kernel: KernelManager) -> None:
    """Run one notebook to its end, and keep what it shows."""
    notebook = nbformat.read(source, as_version=4)
    client = ShowingClient(
        notebook,
        km=kernel,
        timeout=600,
        resources={"metadata": {"path": str(source.parent)}},
        on_cell_start=lambda cell, cell_index: show_cell(cell, cell_index),
    )
    client.name = source.stem
    client.execute()
    target = OUT / source.name
    nbformat.write(notebook, target)
    print(f"\nThe executed notebook: {target}")
    print(f"Run it by hand: GPUFIT_DEVICES=cpu:2x4GiB .venv/bin/jupyter lab {source}")


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    kernel = KernelManager()
    try:
        for source in map(Path, sys.argv[1:]):
            run(source, kernel)
            NotebookClient(new_notebook(cells=[new_code_cell("%reset -f")]), km=kernel).execute()
    finally:
        if kernel.has_kernel:
            kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
