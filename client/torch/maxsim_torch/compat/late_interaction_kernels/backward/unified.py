"""Computes gradients of maxsim under the name of the package's other implementation, and in plain PyTorch."""

from typing import Optional

import torch
from torch import Tensor

from ....tokens import as_booleans
from ._gradients import gradients


def maxsim_backward_unified(
    grad_scores: Tensor,
    Q: Tensor,
    D: Tensor,
    argmax: Tensor,
    q_mask: Optional[Tensor] = None,
    *,
    kd_layout: bool = False,
) -> "tuple[Tensor, Tensor]":
    """Another name of maxsim_backward_lowmem, with the same arguments and results."""
    if not (Q.is_cuda and D.is_cuda):
        raise RuntimeError(f"maxsim_backward_unified requires CUDA tensors; Q is on {Q.device} and D on {D.device}")
    return gradients(grad_scores, Q, D, argmax, q_mask, kd_layout)


def maxsim_backward_unified_reference(
    grad_scores: Tensor, Q: Tensor, D: Tensor, argmax: Tensor, q_mask: Optional[Tensor] = None
) -> "tuple[Tensor, Tensor]":
    """Returns the gradients of Q [Nq, Lq, d] and D [Nd, Ld, d], in their types, with plain PyTorch. An entry of -1 in
    `argmax` [Nq * Nd, Lq] has no gradient."""
    num_queries, num_tokens, dim = Q.shape
    num_documents, num_document_tokens = D.shape[:2]
    matches = argmax.reshape(num_queries, num_documents, num_tokens).long()
    factors = grad_scores.float()[:, :, None] * (matches >= 0)
    if q_mask is not None:
        factors = factors * as_booleans("q_mask", q_mask)[:, None, :]
    # The row of D that each query token of a pair matched, counted over all documents.
    first_rows = torch.arange(num_documents, device=D.device)[None, :, None] * num_document_tokens
    rows = (first_rows + matches.clamp_min(0)).reshape(-1)
    matched = D.float().reshape(-1, dim)[rows].reshape(*matches.shape, dim)
    of_queries = (factors.unsqueeze(-1) * matched).sum(1)
    terms = factors.unsqueeze(-1) * Q.float().unsqueeze(1)
    of_documents = torch.zeros(num_documents * num_document_tokens, dim, device=D.device)
    of_documents.index_add_(0, rows, terms.reshape(-1, dim))
    return of_queries.to(Q.dtype), of_documents.reshape(D.shape).to(D.dtype)
