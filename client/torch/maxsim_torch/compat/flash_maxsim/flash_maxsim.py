"""Scores of one or several queries over padded documents."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._arguments import ArgumentError, batched_scores, one_query_scores, require, require_dims
from .flash_maxsim_pairs_dense import flash_maxsim_pairs_dense
from .flash_maxsim_varlen import flash_maxsim_packed, flash_maxsim_varlen, pack_pairs
from .naive import maxsim_naive

__all__ = [
    "flash_maxsim",
    "flash_maxsim_batched",
    "flash_maxsim_pairs",
    "flash_maxsim_persistent",
    "flash_maxsim_train",
    "maxsim_naive",
]


@torch.no_grad()
def flash_maxsim(
    Q: Tensor,
    D: Tensor,
    doc_lengths: Tensor | None = None,
    query_chunk_size: int | None = 128,
    splitk: bool = False,
) -> Tensor:
    """Returns the scores [B] of the query Q [Lq, d] with documents. D is either [B, Ld, d] with doc_lengths [B], or
    packed [tokens, d]: doc_lengths [B + 1] then say where each document begins and where the last one ends.
    `query_chunk_size` and `splitk` have no effect."""
    require_dims("Q", Q, "[Lq, d]")
    if D.dim() != 2:
        return one_query_scores(Q, D, doc_lengths)
    if doc_lengths is None:
        raise ArgumentError(
            f"D has shape {tuple(D.shape)}, but doc_lengths is None; packed D needs offsets [B + 1]"
        )
    return flash_maxsim_packed(Q, D, doc_lengths)


@torch.no_grad()
def flash_maxsim_batched(
    Q: Tensor,
    D: Tensor,
    doc_lengths: Tensor | None = None,
    shared_docs: bool = True,
    query_lengths: Tensor | None = None,
    pad_lq: bool = True,
    query_chunk_size: int | None = 128,
) -> Tensor:
    """Returns the scores [Nq, B] of queries Q [Nq, Lq, d] with D: [B, Ld, d] or, if `shared_docs` is false, [Nq, B, Ld,
    d]. doc_lengths are [B] or [Nq * B], query_lengths [Nq]. `pad_lq` and `query_chunk_size` have no effect."""
    return batched_scores(Q, D, shared_docs, doc_lengths, query_lengths)


def flash_maxsim_pairs(q_embs: Tensor | Sequence[Tensor], d_embs: Tensor | Sequence[Tensor]) -> Tensor:
    """Returns the scores [N] of N pairs: of Q [N, Lq, d] with D [N, Ld, d], or of two lists of N matrices [length,
    d]."""
    if isinstance(q_embs, Tensor) and isinstance(d_embs, Tensor):
        return flash_maxsim_pairs_dense(q_embs, d_embs)
    require(
        len(q_embs) == len(d_embs) and len(q_embs) > 0,
        f"there are {len(q_embs)} queries and {len(d_embs)} documents; pairs need as many of each, and one at least",
    )
    return flash_maxsim_varlen(*pack_pairs(list(q_embs), list(d_embs)))


def flash_maxsim_train(Q: Tensor, D: Tensor) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with D [B, Ld, d]. Both have gradients."""
    return one_query_scores(Q, D, None)


@torch.no_grad()
def flash_maxsim_persistent(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None, grid_factor: int = 2) -> Tensor:
    """Returns the scores [B] of Q [Lq, d], or [Nq, B] of Q [Nq, Lq, d], with D [B, Ld, d]. `grid_factor` has no
    effect."""
    if Q.dim() == 3:
        return batched_scores(Q, D, True, doc_lengths, None)
    return one_query_scores(Q, D, doc_lengths)
