"""Text for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Returns `text` with \x1b and the like in place of characters that a terminal would obey. Names of columns, ids
    and paths come from other people's files."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
