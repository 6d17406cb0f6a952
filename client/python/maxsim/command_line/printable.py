"""Text for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Returns `text` with escapes such as \x1b instead of characters that would control a terminal. Names of
    columns, ids and paths come from other people's files."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
