"""Names that flash-maxsim has for other launches of its kernels. Here they do the same as flash_maxsim."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import one_query_scores


@torch.no_grad()
def flash_maxsim_qreuse(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents D [B, Ld, d], whose lengths are doc_lengths [B]."""
    return one_query_scores(Q, D, doc_lengths)


@torch.no_grad()
def flash_maxsim_splitk(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None, num_splits: int = 4) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents D [B, Ld, d], whose lengths are doc_lengths [B]. `num_splits`
    has no effect."""
    return one_query_scores(Q, D, doc_lengths)
