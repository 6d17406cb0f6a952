"""Scores of packed queries and documents."""

from typing import Optional

import torch
from torch import Tensor

from ...functions import maxsim_scores_packed
from ._scoring import same_type
from ._utils import longest_sequence


def check_packed(Q_packed: Tensor, D_packed: Tensor) -> None:
    """Raises a ValueError if packed tokens are not two matrices of the same number of columns."""
    for name, rows in (("Q_packed", Q_packed), ("D_packed", D_packed)):
        if rows.dim() != 2:
            raise ValueError(f"{name} must be 2-D, [tokens, d]; it is {tuple(rows.shape)}. maxsim takes padded tensors")
    if Q_packed.shape[1] != D_packed.shape[1]:
        raise ValueError(
            f"Q_packed has {Q_packed.shape[1]} columns and D_packed {D_packed.shape[1]}; they must have the same number"
        )


def maxsim_varlen(
    Q_packed: Tensor,
    D_packed: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_d: Tensor,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_d: Optional[int] = None,
) -> Tensor:
    """Scores [Nq, Nd] in float32 of every packed query with every packed document, with gradients of both.

    Q_packed and D_packed are [tokens, d]; sequence i of each is its rows from cu_seqlens[i] to cu_seqlens[i + 1], of
    int32 or int64. A query and a document without tokens score 0. A query has at most 4,096 tokens and a document
    65,536.

    `max_seqlen_q` and `max_seqlen_d` are bounds of the sequences' tokens, or None. Where `max_seqlen_q` is None, the
    longest query is looked up, which waits for a GPU. A sequence beyond a bound is an error: a RuntimeError, which on a
    GPU comes with a later call. Raises ValueError for other shapes.
    """
    check_packed(Q_packed, D_packed)
    max_query_tokens = longest_sequence(cu_seqlens_q, max_seqlen_q, "max_seqlen_q")
    if max_seqlen_d is not None:
        longest_sequence(cu_seqlens_d, max_seqlen_d, "max_seqlen_d")
    Q_packed, D_packed = same_type(Q_packed, D_packed)
    return maxsim_scores_packed(
        Q_packed,
        D_packed,
        cu_seqlens_d.to(torch.int32),
        query_offsets=cu_seqlens_q.to(torch.int32),
        max_query_tokens=max(max_query_tokens, 1),
        empty_score=0.0,
    )


__all__ = ["maxsim_varlen"]
