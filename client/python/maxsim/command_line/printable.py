"""Text for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` with \x1b and the like in place of characters that a terminal would obey: names of columns, ids and paths
    come from files of others."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
