"""Scores and matches without gradients."""

from typing import Optional

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._scoring import batches, same_type, unit_length


def _run_forward(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor],
    d_mask: Optional[Tensor],
    save_argmax: bool,
    normalize: bool = False,
    *,
    kd_layout: bool = False,
) -> "tuple[Tensor, Optional[Tensor]]":
    """Returns the scores of Q [Nq, Lq, d] and, with `save_argmax`, the matches [Nq * documents, Lq] in int32: the
    document token that each query token matched, or -1 if none counts.

    Without `kd_layout`, D is [Nd, Ld, d], and every query is scored with every document. With `kd_layout`, D is [Nq *
    K, Ld, d], and each query is scored with its own K documents. Masks are [Nq, Lq], and D's shape without the last
    dimension. Lq is at most 4,096. ValueError: with `kd_layout`, D is not a multiple of Nq.
    """
    if kd_layout and D.shape[0] % Q.shape[0] != 0:
        raise ValueError(f"there are {D.shape[0]} documents with kd_layout, not a multiple of the {Q.shape[0]} queries")
    with torch.no_grad():
        Q, D = same_type(Q, D)
        if normalize:
            Q, D = unit_length(Q), unit_length(D)
        if kd_layout:
            D = D.reshape(Q.shape[0], -1, *D.shape[1:])
            d_mask = None if d_mask is None else d_mask.reshape(D.shape[:-1])
        if not save_argmax:
            return maxsim_scores(Q, D, query_mask=q_mask, document_mask=d_mask, empty_score=0.0), None
        scores, argmax = maxsim_scores(
            Q, D, query_mask=q_mask, document_mask=d_mask, empty_score=0.0, return_argmax=True
        )
        return scores, argmax.reshape(-1, Q.shape[1])


def maxsim_forward(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    save_argmax: bool = False,
    normalize: bool = False,
) -> "tuple[Tensor, Optional[Tensor]]":
    """Returns the scores [Nq, Nd] in float32 of queries [Nq, Lq, d] or [Lq, d] with documents [Nd, Ld, d] or [Ld, d],
    without gradients. A dimension that the inputs lack is missing in the scores too. Also returns the matches [Nq * Nd,
    Lq] in int32 (-1 for none) if `save_argmax` is set, and None otherwise. Lq is at most 4,096."""
    made = batches(Q, D, q_mask, d_mask)
    scores, argmax = _run_forward(made.Q, made.D, made.q_mask, made.d_mask, save_argmax, normalize)
    return made.without(scores), argmax


__all__ = ["maxsim_forward"]
