"""How a progress bar of a training cell looks: a display that changes, in the cell and in the saved file."""

from __future__ import annotations

from html import escape

GOOD, BAD = "var(--jp-success-color1, #388e3c)", "var(--jp-error-color1, #d32f2f)"
GOES_ON = "var(--jp-brand-color1, #1976d2)"


def html_bar(left: str, right: str, *, full: str | None, accent: str) -> str:
    """Texts beside a bar; `full`: how full it is, as HTML's attributes; none where there is only text."""
    bar = f'<progress {full} style="width:14em;accent-color:{escape(accent)}"></progress>' if full is not None else ""
    return (
        '<div style="font-family:var(--jp-code-font-family, monospace);white-space:pre-wrap">'
        f"{escape(left)} {bar} {escape(right)}</div>"
    )
