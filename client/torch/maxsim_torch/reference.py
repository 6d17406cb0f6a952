"""What the operators compute, in plain PyTorch: for tests, and to read. It writes the matrix of similarities."""

from typing import Optional

import torch
from torch import Tensor

from .nearest_reference import chamfer_distance, nearest_distances

__all__ = ["chamfer_distance", "counting", "maxsim_scores", "nearest_distances"]


def counting(
    shape: "tuple[int, ...]",
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    device: torch.device,
) -> Tensor:
    """Which of the tokens [..., max_tokens] count, by lengths [...] and mask [..., max_tokens]."""
    counts = torch.ones(shape, dtype=torch.bool, device=device)
    if lengths is not None:
        counts &= torch.arange(shape[-1], device=device) < lengths.unsqueeze(-1)
    if mask is not None:
        counts &= mask != 0
    return counts


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
    """maxsim_torch.maxsim_scores of queries [Nq, Lq, d], in the type of the inputs. The gradient of a maximum goes to
    the first of equal tokens, as there."""
    num_queries = queries.shape[0]
    query_counts = counting(tuple(queries.shape[:-1]), query_lengths, query_mask, queries.device)
    document_counts = counting(tuple(documents.shape[:-1]), document_lengths, document_mask, documents.device)
    if weights is None:
        weights = torch.ones(queries.shape[:-1], dtype=queries.dtype, device=queries.device)
    if documents.dim() == 3:
        # One list of documents for each query: [Nq, K, Ld, d].
        if paired:
            documents, document_counts = documents.unsqueeze(1), document_counts.unsqueeze(1)
        elif candidates is not None:
            documents, document_counts = documents[candidates], document_counts[candidates]
        else:
            documents = documents.unsqueeze(0).expand(num_queries, *documents.shape)
            document_counts = document_counts.unsqueeze(0).expand(num_queries, *document_counts.shape)
    # Values of tokens that do not count may be anything, and must not reach a product.
    queries = torch.where(query_counts.unsqueeze(-1), queries, 0)
    documents = torch.where(document_counts.unsqueeze(-1), documents, 0)
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
