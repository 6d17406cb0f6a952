"""Computes the same as the operators in plain PyTorch, for tests and readers. Stores the matrix of similarities."""

from typing import Any, Optional

import torch
from torch import Tensor

from .nearest_reference import chamfer_distance, nearest_distances
from .tokens import counting
from .triadic_reference import triadic_attention, triadic_maxsim_scores

__all__ = [
    "chamfer_distance",
    "counting",
    "maxsim_scores",
    "nearest_distances",
    "triadic_attention",
    "triadic_maxsim_scores",
]


def maxsim_scores(
    queries: Tensor,
    documents: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    return_argmax: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """Computes maxsim_torch.maxsim_scores of queries [Nq, Lq, d], in the type of the inputs. If several tokens are
    equally similar, the first one gets the gradient, as in the operators."""
    query_counts = counting(tuple(queries.shape[:-1]), query_lengths, query_mask, queries.device)
    document_counts = counting(tuple(documents.shape[:-1]), document_lengths, document_mask, documents.device)
    if weights is None:
        weights = torch.ones(queries.shape[:-1], dtype=queries.dtype, device=queries.device)
    if documents.shape[-2] == 0:  # Adds a token that does not count, so that there is an argmax.
        documents = torch.nn.functional.pad(documents, (0, 0, 0, 1))
        document_counts = torch.nn.functional.pad(document_counts, (0, 1))
    # Tokens that do not count may have any values, so they must not be part of a product.
    queries = torch.where(query_counts.unsqueeze(-1), queries, 0)
    documents = torch.where(document_counts.unsqueeze(-1), documents, 0)
    if paired:
        documents, document_counts = documents.unsqueeze(1), document_counts.unsqueeze(1)
    elif candidates is not None:
        documents, document_counts = documents[candidates], document_counts[candidates]
    if documents.dim() == 3:  # Every query meets every document.
        similarity = torch.einsum("qid,kjd->qkij", queries, documents)
        document_counts = document_counts.unsqueeze(0)
    else:  # A list of documents for each query: [Nq, K, Ld, d].
        similarity = torch.einsum("qid,qkjd->qkij", queries, documents)
    similarity = similarity.masked_fill(~document_counts.unsqueeze(2), float("-inf"))
    argmax = similarity.argmax(-1)  # the first of equals
    best = similarity.gather(-1, argmax.unsqueeze(-1)).squeeze(-1)
    matched = query_counts.unsqueeze(1) & document_counts.any(-1, keepdim=True)  # [Nq, K, Lq]
    terms = torch.where(matched, best, 0) * torch.where(query_counts, weights, 0).unsqueeze(1)
    scores = terms.sum(-1)
    empty = ~document_counts.any(-1) & query_counts.any(-1).unsqueeze(1)
    scores = torch.where(empty, torch.full_like(scores, empty_score), scores)
    argmax = torch.where(matched, argmax, -1).to(torch.int32)
    if paired:
        scores, argmax = scores.squeeze(1), argmax.squeeze(1)
    return (scores, argmax) if return_argmax else scores


def fused_head_scores(
    queries: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    normalize: bool = True,
    token_weights: Optional[Tensor] = None,
    **more: Any,
) -> "Tensor | tuple[Tensor, Tensor]":
    """Computes maxsim_torch.fused_head_scores of queries [Nq, Lq, d], in the type of the inputs: first the vectors of
    all documents, then their scores."""
    counts = counting(
        tuple(hidden.shape[:-1]), more.get("document_lengths"), more.get("document_mask"), hidden.device
    )
    documents = torch.nn.functional.linear(torch.where(counts.unsqueeze(-1), hidden, 0), weight, bias)
    if normalize:
        documents = torch.nn.functional.normalize(documents, dim=-1)
    return maxsim_scores(queries, documents, weights=token_weights, **more)


def maxsim_top_k(queries: Tensor, documents: Tensor, k: int, **more: Any) -> "tuple[Tensor, Tensor]":
    """Computes maxsim_torch.maxsim_top_k of queries [Nq, Lq, d] and padded documents by sorting all scores."""
    scores = maxsim_scores(queries, documents, **more)
    assert isinstance(scores, Tensor)
    values, indices = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], indices[:, :k]
