"""Packs and scores sequences that follow one another in one matrix, without padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...functions import maxsim_scores_packed
from ._arguments import alike, counts, require, require_forms


def _offsets(name: str, offsets: Tensor) -> Tensor:
    require(
        offsets.dim() == 1 and offsets.shape[0] > 0,
        f"{name} has shape {tuple(offsets.shape)}; must be a vector of one number more than there are sequences",
    )
    checked = counts(name, offsets, tuple(offsets.shape))
    assert checked is not None
    return checked


def _pack(name: str, sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor, int]:
    """Returns (rows [tokens, d], offsets [N + 1] in int32, the longest length)."""
    require(len(sequences) > 0, f"{name} is empty; one sequence at least is needed")
    lengths = torch.tensor([sequence.shape[0] for sequence in sequences], device="cpu")
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(sequences[0].device, torch.int32)
    return torch.cat(list(sequences)), offsets, int(lengths.max())


def pack_docs(d_embs: Sequence[Tensor]) -> tuple[Tensor, Tensor, int]:
    """Packs documents [length, d]. Returns (D_packed [tokens, d], cu_seqlens_d [B + 1] in int32, max_seqlen_d)."""
    return _pack("d_embs", d_embs)


def pack_pairs(q_embs: Sequence[Tensor], d_embs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
    """Packs queries and documents [length, d]. Returns (Q_packed, D_packed, cu_seqlens_q, cu_seqlens_d, max_lq,
    max_ld)."""
    queries, query_offsets, longest_query = _pack("q_embs", q_embs)
    documents, document_offsets, longest_document = _pack("d_embs", d_embs)
    return queries, documents, query_offsets, document_offsets, longest_query, longest_document


@torch.no_grad()
def flash_maxsim_packed(
    Q: Tensor,
    D_packed: Tensor,
    cu_seqlens_d: Tensor,
    max_seqlen_d: int | None = None,
    query_chunk_size: int | None = 128,
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with the documents in D_packed [tokens, d]. cu_seqlens_d [B + 1] says where
    each begins and where the last one ends. `max_seqlen_d` and `query_chunk_size` have no effect."""
    require_forms(Q=(Q, "[Lq, d]"), D_packed=(D_packed, "[tokens, d]"))
    query, documents = alike(Q, D_packed)
    return maxsim_scores_packed(query, documents, _offsets("cu_seqlens_d", cu_seqlens_d))


@torch.no_grad()
def flash_maxsim_varlen(
    Q_packed: Tensor,
    D_packed: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_d: Tensor,
    max_seqlen_q: int,
    max_seqlen_d: int,
) -> Tensor:
    """Returns the scores [N] of N pairs of packed sequences: Q_packed [tokens, d] with cu_seqlens_q [N + 1], and
    D_packed with cu_seqlens_d [N + 1]. No query may have more than `max_seqlen_q` tokens. `max_seqlen_d` has no
    effect."""
    require_forms(Q_packed=(Q_packed, "[tokens, d]"), D_packed=(D_packed, "[tokens, d]"))
    require(
        cu_seqlens_q.shape[0] == cu_seqlens_d.shape[0],
        f"cu_seqlens_q has {cu_seqlens_q.shape[0]} numbers, and cu_seqlens_d {cu_seqlens_d.shape[0]}; pairs need as "
        f"many",
    )
    queries, documents = alike(Q_packed, D_packed)
    return maxsim_scores_packed(
        queries,
        documents,
        _offsets("cu_seqlens_d", cu_seqlens_d),
        query_offsets=_offsets("cu_seqlens_q", cu_seqlens_q),
        # The operators need at least 1, even if every query is empty.
        max_query_tokens=max(int(max_seqlen_q), 1),
        paired=True,
    )
