"""Scores documents in a model's output, packed or anywhere in the matrix, without copying them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...functions import maxsim_scores_packed
from ._arguments import alike, batched_scores, counts, require, require_dims, require_forms
from .flash_maxsim_varlen import flash_maxsim_packed


def flash_maxsim_rerank(Q: Tensor, D_packed: Tensor, cu_seqlens_d: Tensor, max_seqlen_d: int) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with the documents in D_packed [tokens, d]. cu_seqlens_d [B + 1] says where
    each begins and where the last one ends. `max_seqlen_d` has no effect."""
    return flash_maxsim_packed(Q, D_packed, cu_seqlens_d, max_seqlen_d)


@torch.no_grad()
def flash_maxsim_rerank_direct(
    Q: Tensor, batch_tensor: Tensor, doc_offsets: Tensor, doc_lengths: Tensor, max_seqlen_d: int
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents anywhere in batch_tensor [tokens, d]: document b has
    doc_lengths[b] rows from row doc_offsets[b] on. Documents may share rows. `max_seqlen_d` has no effect."""
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
    """Returns the scores [B, C] of queries [B, Lq, d], each with its own C candidates, documents [B, C, Ld, d]. Lengths
    are [B] and [B, C]. The call never waits for the device."""
    require_dims("queries", queries, "[B, Lq, d]")
    require_dims("documents", documents, "[B, C, Ld, d]")
    require(
        queries.shape[0] == documents.shape[0],
        f"there are {queries.shape[0]} queries, and documents of {documents.shape[0]}",
    )
    return batched_scores(queries, documents, False, doc_lengths, query_lengths)
