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
    """Scores [Nq, B] in float32 of Q [Nq, Lq, d] with D [B, Ld, d], or with `shared_docs` false with D [Nq, B, Ld, d].
    Lengths are doc_lengths [B] or [Nq * B], and query_lengths [Nq]. Gradients come in the types of Q and D; rows that
    do not count get zeros, whatever they hold."""
    return batched_scores(Q, D, shared_docs, doc_lengths, query_lengths)
