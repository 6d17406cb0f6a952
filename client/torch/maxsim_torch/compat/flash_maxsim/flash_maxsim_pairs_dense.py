"""Scores of pairs. All queries have the same length, and so have all documents."""

from __future__ import annotations

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._arguments import alike, counts, require, require_columns, require_dims


@torch.no_grad()
def flash_maxsim_pairs_dense(
    Q: Tensor, D: Tensor, q_lengths: Tensor | None = None, doc_lengths: Tensor | None = None
) -> Tensor:
    """Returns the scores [B] of each Q[b] with D[b]. Q is [B, Lq, d], D is [B, Ld, d], and lengths are [B]."""
    require_dims("Q", Q, "[B, Lq, d]")
    require_dims("D", D, "[B, Ld, d]")
    message = f"Q has {Q.shape[0]} queries, but D has {D.shape[0]} documents; pairs need equal numbers"
    require(Q.shape[0] == D.shape[0], message)
    require_columns("Q", Q, "D", D)
    queries, documents = alike(Q, D)
    return maxsim_scores(
        queries,
        documents,
        paired=True,
        query_lengths=counts("q_lengths", q_lengths, (Q.shape[0],)),
        document_lengths=counts("doc_lengths", doc_lengths, (D.shape[0],)),
    )
