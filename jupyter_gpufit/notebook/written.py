"""What a terminal, and a page, would show of written text: carriage returns done, in one pass."""

from __future__ import annotations


def written(text: str, more: str) -> str:
    """`text` after `more` was written behind it, which looks the same, and is about as long as what is seen of it."""
    if "\r" not in more:
        return text + more
    done, newline, line = text.rpartition("\n")
    *lines, last = (line + more).split("\n")
    seen, written_last = shown(last), last.rpartition("\r")[2]
    # What comes next goes on where this ended, which may be in the midst of what is seen.
    still_open = f"\r{written_last}" if len(written_last) < len(seen) else ""
    return done + newline + "".join(f"{shown(one)}\n" for one in lines) + seen + still_open


def last_look(text: str) -> str:
    """The whole of a text."""
    return "\n".join(map(shown, text.split("\n")))


def shown(line: str) -> str:
    """One line; the carriage returns at its end are not done. Each part is written over those before it."""
    *under, text = line.rstrip("\r").split("\r")
    # Colours count as letters here, so what would be left of a line with colours cannot be told: it goes.
    for part in reversed(under):
        if text and ("\x1b" in part or "\x1b" in text):
            break
        text += part[len(text) :]
    return text
