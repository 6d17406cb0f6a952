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
    """Returns the scores [Nq, Nd] in float32 of every packed query with every packed document. Both have gradients.

    Q_packed and D_packed are [tokens, d]. Sequence i of each is its rows from cu_seqlens[i] to cu_seqlens[i + 1], in
    int32 or int64. A query or document without tokens scores 0. A query has at most 4,096 tokens, and a document at
    most 65,536.

    `max_seqlen_q` and `max_seqlen_d` are upper limits of the sequences' tokens, or None. If `max_seqlen_q` is None, the
    function reads the longest query's length, which waits for a GPU. A sequence that exceeds a limit is a RuntimeError,
    which on a GPU comes with a later call. ValueError: shapes do not fit.
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
