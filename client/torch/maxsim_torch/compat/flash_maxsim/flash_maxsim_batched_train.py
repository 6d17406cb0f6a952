"""Scores of a batch with gradients, for contrastive training and distillation."""

from __future__ import annotations

from torch import Tensor

from ._arguments import batched_scores


def flash_maxsim_batched_train(
    Q: Tensor,
    D: Tensor,
    shared_docs: bool = True,
    doc_lengths: Tensor | None = None,
    query_lengths: Tensor | None = None,
) -> Tensor:
    """Returns the scores [Nq, B] in float32 of Q [Nq, Lq, d] with D: [B, Ld, d] or, if `shared_docs` is false, [Nq, B,
    Ld, d]. doc_lengths are [B] or [Nq * B], query_lengths [Nq]. Gradients have the types of Q and D. Rows that do not
    count have zero gradients, whatever values they have."""
    return batched_scores(Q, D, shared_docs, doc_lengths, query_lengths)
