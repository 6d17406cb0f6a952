"""Joins the word pieces of a tokenizer to words."""

from __future__ import annotations

from collections.abc import Sequence

from . import limits
from .payloads import cut

_CONTINUES = "##"  # WordPiece marks a piece that continues a word
_BEGINS = ("▁", "Ġ")  # SentencePiece and byte-level BPE mark a piece that begins one


def joined(pieces: Sequence[str]) -> str:
    """Returns pieces as text: "run ##ny basalt" becomes "runny basalt"."""
    marked = any(piece.startswith(_BEGINS) for piece in pieces)
    text = ""
    for piece in pieces:
        begins = piece.startswith(_BEGINS) if marked else not piece.startswith(_CONTINUES)
        bare = piece.lstrip("".join(_BEGINS)) if marked else piece.removeprefix(_CONTINUES)
        text += f" {bare}" if begins and text else bare
    return text


def context(pieces: Sequence[str], position: int) -> str:
    """Returns a piece with its neighbours, as text."""
    first = max(0, position - limits.CONTEXT_TOKENS)
    return cut(joined(pieces[first : position + limits.CONTEXT_TOKENS + 1]), limits.MAX_CONTEXT_CHARS)
