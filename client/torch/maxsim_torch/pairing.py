"""Which documents each query is scored with."""

from typing import Optional

import torch
from torch import Tensor

from . import library
from .checks import explain_values
from .tokens import Tokens, explain_tokens, indices


def pair(
    queries: Tokens,
    documents: Tokens,
    candidates: Optional[Tensor],
    paired: bool,
    one_query: bool,
) -> "tuple[Optional[Tensor], int, int, tuple[int, ...]]":
    """Returns candidates, pairing, list length and the shape of the scores, where documents are one list."""
    if paired and candidates is not None:
        raise ValueError("paired queries and documents have no candidates")
    if paired:
        if queries.num_sequences != documents.num_sequences:
            raise ValueError(f"{queries.num_sequences} queries are paired with {documents.num_sequences} documents")
        return None, library.PAIRS, 1, () if one_query else (queries.num_sequences,)
    if candidates is None:
        shape = (documents.num_sequences,) if one_query else (queries.num_sequences, documents.num_sequences)
        return None, library.ALL, documents.num_sequences, shape
    wanted = 1 if one_query else 2
    if candidates.dim() != wanted or (not one_query and candidates.shape[0] != queries.num_sequences):
        which = "[K] for one query [Lq, d]" if one_query else f"[{queries.num_sequences}, K] for these queries"
        raise ValueError(f"candidates have the shape {tuple(candidates.shape)}; they are {which}")
    candidates = indices("candidates", candidates, tuple(candidates.shape))
    return candidates.to(torch.int64), library.LISTS, candidates.shape[-1], tuple(candidates.shape)


def explain_values_of(queries: Tokens, documents: Tokens, candidates: Optional[Tensor]) -> None:
    """Raises ValueError for the first length, offset or candidate that is refused, where values can be read."""
    explain_tokens("query", queries)
    explain_tokens("document", documents)
    explain_values("candidates", candidates, documents.num_sequences - 1)
