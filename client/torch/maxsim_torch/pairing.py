"""Which documents each query is scored with."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from . import library
from .checks import explain_values
from .tokens import Tokens, explain_tokens, indices


class Pairs(NamedTuple):
    """Which documents each query is scored against, as the operators take it: `pairing` is ALL, PAIRS or LISTS,
    `list_length` the number of documents per query, and `candidates` their indices, if the caller gave any. `shape` is
    that of the scores which the caller gets."""

    candidates: Optional[Tensor]
    pairing: int
    list_length: int
    shape: "tuple[int, ...]" = ()


def pair(
    queries: Tokens,
    documents: Tokens,
    candidates: Optional[Tensor],
    paired: bool,
    one_query: bool,
    lists: "tuple[str, str]" = ("documents of [Nq, K, Ld, d] are", "there are documents of"),
) -> Pairs:
    """Makes Pairs from the caller's arguments. Documents of four dimensions are one list per query. `lists` has the
    beginnings of the error messages about such lists."""
    if documents.offsets is None and documents.rows.dim() == 4:
        if paired or candidates is not None:
            raise ValueError(f"{lists[0]} one list per query: leave out paired and candidates")
        num_lists, list_length = documents.rows.shape[:2]
        if num_lists != queries.num_sequences:
            raise ValueError(f"{lists[1]} {num_lists} queries, but there are {queries.num_sequences} queries")
        return Pairs(None, library.LISTS, list_length, (list_length,) if one_query else (num_lists, list_length))
    if paired and candidates is not None:
        raise ValueError("paired queries and documents take no candidates")
    if paired:
        if queries.num_sequences != documents.num_sequences:
            raise ValueError(f"{queries.num_sequences} queries are paired with {documents.num_sequences} documents")
        return Pairs(None, library.PAIRS, 1, () if one_query else (queries.num_sequences,))
    if candidates is None:
        shape: "tuple[int, ...]" = (documents.num_sequences,)
        if not one_query:
            shape = (queries.num_sequences, documents.num_sequences)
        return Pairs(None, library.ALL, documents.num_sequences, shape)
    wanted = 1 if one_query else 2
    if candidates.dim() != wanted or (not one_query and candidates.shape[0] != queries.num_sequences):
        which = "[K] for one query [Lq, d]" if one_query else f"[{queries.num_sequences}, K] for these queries"
        raise ValueError(f"candidates have shape {tuple(candidates.shape)}; must be {which}")
    shape = tuple(candidates.shape)
    candidates = indices("candidates", candidates, shape).to(torch.int64)
    return Pairs(candidates, library.LISTS, shape[-1], shape)


def explain_values_of(queries: Tokens, documents: Tokens, candidates: Optional[Tensor]) -> None:
    """Raises ValueError for the first wrong length, offset or candidate, if values can be read."""
    explain_tokens("query", queries)
    explain_tokens("document", documents)
    explain_values("candidates", candidates, documents.num_sequences - 1)
