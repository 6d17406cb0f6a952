"""Scores of documents where they lie: in a model's output, packed or scattered, without a copy."""

from __future__ import annotations

import torch
from torch import Tensor

from ...functions import maxsim_scores_packed
from ._arguments import alike, batched_scores, counts, require, require_dims, require_forms
from .flash_maxsim_varlen import flash_maxsim_packed


def flash_maxsim_rerank(Q: Tensor, D_packed: Tensor, cu_seqlens_d: Tensor, max_seqlen_d: int) -> Tensor:
    """Scores [B] of Q [Lq, d] with the documents of D_packed [tokens, d], which cu_seqlens_d [B + 1] bounds.
    `max_seqlen_d` changes nothing."""
    return flash_maxsim_packed(Q, D_packed, cu_seqlens_d, max_seqlen_d)


@torch.no_grad()
def flash_maxsim_rerank_direct(
    Q: Tensor, batch_tensor: Tensor, doc_offsets: Tensor, doc_lengths: Tensor, max_seqlen_d: int
) -> Tensor:
    """Scores [B] of Q [Lq, d] with documents anywhere in batch_tensor [tokens, d]: document b is the doc_lengths[b]
    rows from row doc_offsets[b] on, and rows may belong to several. `max_seqlen_d` changes nothing."""
    require_forms(Q=(Q, "[Lq, d]"), batch_tensor=(batch_tensor, "[tokens, d]"))
    query, documents = alike(Q, batch_tensor)
    offsets = counts("doc_offsets", doc_offsets, (doc_offsets.numel(),))
    assert offsets is not None
    return maxsim_scores_packed(
        query, documents, offsets, document_lengths=counts("doc_lengths", doc_lengths, (doc_offsets.numel(),))
    )


@torch.no_grad()
def flash_maxsim_rerank_padded(
    queries: Tensor,
    documents: Tensor,
    query_lengths: Tensor | None = None,
    doc_lengths: Tensor | None = None,
) -> Tensor:
    """Scores [B, C] of queries [B, Lq, d] with C candidates each, documents [B, C, Ld, d]; lengths are [B] and [B, C].
    Nothing waits for the device, whatever the lengths are."""
    require_dims("queries", queries, "[B, Lq, d]")
    require_dims("documents", documents, "[B, C, Ld, d]")
    require(
        queries.shape[0] == documents.shape[0],
        f"there are {queries.shape[0]} queries, and documents of {documents.shape[0]}",
    )
    return batched_scores(queries, documents, False, doc_lengths, query_lengths)
