"""The definitions in plain PyTorch. Each writes the matrix of similarities, in the type of the inputs."""

from __future__ import annotations

import torch
from torch import Tensor


def _similarities(query: Tensor, documents: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns similarities [B, Lq, Ld] of Q [Lq, d] and D [B, Ld, d]. Beyond a document's end they are minus
    infinity."""
    similarities = torch.einsum("id,bjd->bij", query, documents)
    if doc_lengths is None:
        return similarities
    behind = torch.arange(documents.shape[1], device=documents.device) >= doc_lengths.unsqueeze(1)
    return similarities.masked_fill(behind.unsqueeze(1), float("-inf"))


def maxsim_naive(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns scores [B] in the inputs' type, of Q [Lq, d] with D [B, Ld, d], whose lengths are doc_lengths [B]."""
    return _similarities(Q, D, doc_lengths).max(-1).values.sum(-1)


def maxsim_naive_fp32(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns scores [B] in float32. The similarities are in the inputs' type, and their maxima are added in
    float32."""
    return _similarities(Q, D, doc_lengths).float().max(-1).values.sum(-1)


def maxsim_at_operator(Q: Tensor, D: Tensor) -> Tensor:
    """Returns scores [B] in the inputs' type, computed with one matrix product."""
    similarities = Q @ D.flatten(0, 1).T
    return similarities.reshape(Q.shape[0], *D.shape[:2]).max(-1).values.sum(0)


def maxsim_bmm(Q: Tensor, D: Tensor) -> Tensor:
    """[B] in the inputs' type, by torch.bmm."""
    return torch.bmm(Q.expand(D.shape[0], *Q.shape), D.mT).max(-1).values.sum(-1)


def maxsim_chunked(Q: Tensor, D: Tensor, chunk_size: int = 1000, fp32_reduce: bool = False) -> Tensor:
    """Computes maxsim_naive, or maxsim_naive_fp32 if fp32_reduce is set, for `chunk_size` documents at a time."""
    score = maxsim_naive_fp32 if fp32_reduce else maxsim_naive
    return torch.cat([score(Q, chunk) for chunk in torch.split(D, chunk_size)])


def maxsim_naive_batched(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None, shared_docs: bool = True) -> Tensor:
    """Returns scores [Nq, B] of Q [Nq, Lq, d] with D: [B, Ld, d] or, if the documents are not shared, [Nq, B, Ld, d].
    Scores one query at a time, each with the same doc_lengths [B]."""
    return torch.stack(
        [maxsim_naive(query, D if shared_docs else D[index], doc_lengths) for index, query in enumerate(Q)]
    )


def maxsim_naive_int8(Q: Tensor, D_int8: Tensor, d_scales: Tensor) -> Tensor:
    """Returns scores [B] of Q [Lq, d] with codes [B, Ld, d] times their scales [B, Ld] or [B, Ld, 1], rounded to
    float16."""
    scales = d_scales if d_scales.dim() == 3 else d_scales.unsqueeze(-1)
    return maxsim_naive(Q, (D_int8.float() * scales.float()).to(torch.float16))
