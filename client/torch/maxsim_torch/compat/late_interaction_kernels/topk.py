"""Finds the documents with the highest scores for each query."""

from typing import Optional

import torch
from torch import Tensor

from ._scoring import batches, padded_scores
from .reference import maxsim_reference


def _scores(Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor], normalize: bool) -> Tensor:
    """Returns scores [Nq, Nd] without gradients. Uses plain PyTorch for float64 and for devices other than CPU and
    CUDA, which the operators do not support."""
    with torch.no_grad():
        if Q.device.type in ("cpu", "cuda") and not (Q.device.type == "cpu" and torch.float64 in (Q.dtype, D.dtype)):
            return padded_scores(Q, D, q_mask, d_mask, normalize=normalize)
        return maxsim_reference(Q, D, q_mask, d_mask, normalize=normalize)


def maxsim_topk(
    Q: Tensor,
    D: Tensor,
    k: int,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = False,
    chunk_size: Optional[int] = None,
    largest: bool = True,
    sorted: bool = True,
) -> "tuple[Tensor, Tensor]":
    """Returns scores and indices of the `k` documents with the highest scores of each query (with `largest=False`, the
    lowest). Both are [Nq, min(k, Nd)], or without the first dimension for one query [Lq, d]. There are no gradients.

    Results are in the order of their scores, whatever `sorted` is. Of documents with equal scores, those with the
    smallest indices come first and are kept. With `chunk_size`, that many documents are scored at a time: this needs
    memory for chunk_size + k scores per query and, with `normalize`, for the vectors of chunk_size documents.
    Everything else is as in maxsim. ValueError: k or chunk_size is not positive.
    """
    if k <= 0:
        raise ValueError(f"k must be positive; it is {k}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"chunk_size must be positive; it is {chunk_size}")
    made = batches(Q, D, q_mask, d_mask)
    num_documents = made.D.shape[0]
    step = num_documents if chunk_size is None else chunk_size
    kept: "Optional[tuple[Tensor, Tensor]]" = None
    for begin in range(0, max(num_documents, 1), max(step, 1)):
        part = slice(begin, begin + step)
        mask = None if made.d_mask is None else made.d_mask[part]
        scores = _scores(made.Q, made.D[part], made.q_mask, mask, normalize) + 0.0  # a sort may tell -0 from 0
        index = torch.arange(begin, begin + scores.shape[1], device=scores.device).expand(scores.shape)
        if kept is not None:
            # The documents kept so far have smaller indices and come first, and the sort is stable.
            scores, index = torch.cat([kept[0], scores], -1), torch.cat([kept[1], index], -1)
        scores, order = scores.sort(dim=-1, descending=largest, stable=True)
        kept = scores[:, :k].contiguous(), index.gather(-1, order[:, :k])
    assert kept is not None
    return (kept[0].squeeze(0), kept[1].squeeze(0)) if made.one_query else kept


__all__ = ["maxsim_topk"]
