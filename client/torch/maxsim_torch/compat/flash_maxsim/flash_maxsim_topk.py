"""Finds the best documents of a query: INT8 scores choose the candidates, and exact scores rank them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._arguments import ArgumentError, alike, counts, one_query_scores, require_dims
from .flash_maxsim_quant import flash_maxsim_int8


@torch.no_grad()
def flash_maxsim_topk(
    Q: Tensor,
    D: Tensor,
    k: int,
    doc_lengths: Tensor | None = None,
    n_candidates: int | None = None,
    D_int8: Tensor | None = None,
    scales: Tensor | None = None,
    mins: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns (scores, indices), both [k] and best first, of the documents D [N, Ld, d] for Q [Lq, d]. If there are
    fewer than k documents, returns fewer.

    With `D_int8`, `scales` and `mins`, which quantize_int8 makes of all documents, INT8 scores choose `n_candidates`
    documents (default 4 * k), and D gives their exact scores. Without them, or if nearly all documents would be
    candidates, all scores are exact.
    """
    require_dims("Q", Q, "[Lq, d]")
    require_dims("D", D, "[N, Ld, d]")
    num_documents = D.shape[0]
    k = min(k, num_documents)
    n_candidates = min(4 * k if n_candidates is None else n_candidates, num_documents)
    nearly_all = n_candidates >= int(num_documents * 0.8)
    if nearly_all or D_int8 is None or scales is None or mins is None:
        best = one_query_scores(Q, D, doc_lengths).topk(k)
        return best.values, best.indices
    if n_candidates < k:
        raise ArgumentError(f"n_candidates is {n_candidates}; must be k or more, {k}")
    candidates = flash_maxsim_int8(Q, D_int8, scales, mins, doc_lengths).topk(n_candidates).indices
    query, documents = alike(Q, D)
    exact = maxsim_scores(
        query,
        documents,
        candidates=candidates,
        document_lengths=counts("doc_lengths", doc_lengths, (num_documents,)),
    ).topk(k)
    return exact.values, candidates[exact.indices]
