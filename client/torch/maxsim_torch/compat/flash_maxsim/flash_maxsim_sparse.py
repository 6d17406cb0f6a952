"""Scores in which each document is compared with its own choice of query tokens."""

from __future__ import annotations

import sys
import types

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._arguments import alike, counts, parts, require, require_columns, require_dims


def _check(query: Tensor, documents: Tensor, indices: Tensor) -> None:
    require_dims("Q", query, "[Lq, d]")
    require_dims("D", documents, "[B, Ld, d]")
    require_dims("indices", indices, "[B, K]")
    require_columns("Q", query, "D", documents)
    require(
        indices.shape[0] == documents.shape[0],
        f"indices has {indices.shape[0]} rows, but D has {documents.shape[0]} documents",
    )


@torch.no_grad()
def flash_maxsim_sparse(Q: Tensor, D: Tensor, indices: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns the scores [B] of the query tokens Q[indices[b]] with D[b]. Q is [Lq, d], D [B, Ld, d], indices [B, K].
    Document b has doc_lengths[b] tokens."""
    _check(Q, D, indices)
    query, documents = alike(Q, D)
    lengths = counts("doc_lengths", doc_lengths, (D.shape[0],))
    chosen = indices.long()
    scores = torch.empty(D.shape[0], dtype=torch.float32, device=D.device)
    for begin, end in parts(D.shape[0], indices.shape[1] * Q.shape[1] * query.element_size()):
        scores[begin:end] = maxsim_scores(
            query[chosen[begin:end]],
            documents[begin:end],
            paired=True,
            document_lengths=None if lengths is None else lengths[begin:end],
        )
    return scores


def maxsim_sparse_naive(Q: Tensor, D: Tensor, indices: Tensor) -> Tensor:
    """Computes flash_maxsim_sparse by its definition, [B] in float32. Writes the similarities [B, K, Ld]."""
    _check(Q, D, indices)
    similarities = torch.einsum("bkd,bjd->bkj", Q[indices.long()].float(), D.float())
    return similarities.max(-1).values.sum(-1)


class _CallableModule(types.ModuleType):
    """Makes this module callable. In flash-maxsim, flash_maxsim_sparse is a module, but its documentation calls it as a
    function."""

    def __call__(self, Q: Tensor, D: Tensor, indices: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
        return flash_maxsim_sparse(Q, D, indices, doc_lengths)


sys.modules[__name__].__class__ = _CallableModule
