"""The definitions, in plain PyTorch: each of them writes the matrix of similarities, in the type of the inputs."""

from __future__ import annotations

import torch
from torch import Tensor


def _similarities(query: Tensor, documents: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """[B, Lq, Ld] of Q [Lq, d] and D [B, Ld, d], minus infinity after the end of a document."""
    similarities = torch.einsum("id,bjd->bij", query, documents)
    if doc_lengths is None:
        return similarities
    behind = torch.arange(documents.shape[1], device=documents.device) >= doc_lengths.unsqueeze(1)
    return similarities.masked_fill(behind.unsqueeze(1), float("-inf"))


def maxsim_naive(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """[B] in the inputs' type, of Q [Lq, d], D [B, Ld, d] and doc_lengths [B]."""
    return _similarities(Q, D, doc_lengths).max(-1).values.sum(-1)


def maxsim_naive_fp32(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """[B] in float32: the similarities are in the inputs' type, and their maxima are added in float32."""
    return _similarities(Q, D, doc_lengths).float().max(-1).values.sum(-1)


def maxsim_at_operator(Q: Tensor, D: Tensor) -> Tensor:
    """[B] in the inputs' type, by one product of matrices."""
    similarities = Q @ D.flatten(0, 1).T
    return similarities.reshape(Q.shape[0], *D.shape[:2]).max(-1).values.sum(0)


def maxsim_bmm(Q: Tensor, D: Tensor) -> Tensor:
    """[B] in the inputs' type, by torch.bmm."""
    return torch.bmm(Q.expand(D.shape[0], *Q.shape), D.mT).max(-1).values.sum(-1)


def maxsim_chunked(Q: Tensor, D: Tensor, chunk_size: int = 1000, fp32_reduce: bool = False) -> Tensor:
    """maxsim_naive, or with fp32_reduce maxsim_naive_fp32, of `chunk_size` documents at a time."""
    score = maxsim_naive_fp32 if fp32_reduce else maxsim_naive
    return torch.cat([score(Q, chunk) for chunk in torch.split(D, chunk_size)])


def maxsim_naive_batched(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None, shared_docs: bool = True) -> Tensor:
    """[Nq, B] of Q [Nq, Lq, d] and D [B, Ld, d], or [Nq, B, Ld, d] where they are not shared; a query at a time, each
    with the same doc_lengths [B]."""
    return torch.stack(
        [maxsim_naive(query, D if shared_docs else D[index], doc_lengths) for index, query in enumerate(Q)]
    )


def maxsim_naive_int8(Q: Tensor, D_int8: Tensor, d_scales: Tensor) -> Tensor:
    """[B] of Q [Lq, d] and codes [B, Ld, d] with their scales [B, Ld] or [B, Ld, 1], multiplied out to float16."""
    scales = d_scales if d_scales.dim() == 3 else d_scales.unsqueeze(-1)
    return maxsim_naive(Q, (D_int8.float() * scales.float()).to(torch.float16))
