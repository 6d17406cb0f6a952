"""Computes the same as this package in plain PyTorch, for tests and readers. Writes the matrix of similarities."""

from typing import Optional

import torch
from torch import Tensor

from ...tokens import as_booleans
from ._scoring import batches

NEG_INF = float("-inf")


def _exact(tokens: Tensor) -> Tensor:
    """Returns float16 and bfloat16 tokens as float32, and other types unchanged."""
    return tokens.float() if tokens.dtype in (torch.float16, torch.bfloat16) else tokens


def _sum_of_best(similarities: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor]) -> Tensor:
    """Sums the maxima of the last dimension over the last dimension but one. q_mask has the dimensions of the maxima,
    and d_mask those of the similarities; a dimension may be 1. A maximum over nothing is 0."""
    if d_mask is not None:
        similarities = similarities.masked_fill(~d_mask.bool(), NEG_INF)
    best = similarities.max(-1).values
    best = torch.where(torch.isfinite(best), best, torch.zeros_like(best))
    if q_mask is not None:
        best = best * q_mask.to(best.dtype)
    return best.sum(-1)


def maxsim_reference(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = False,
) -> Tensor:
    """Computes maxsim of queries [Nq, Lq, d] or [Lq, d] and documents [Nd, Ld, d] or [Ld, d]. The result has the
    inputs' type, but at least float32. Masks are booleans, or 0 and 1. ValueError: a mask has other values, or the last
    dimensions differ."""
    if Q.shape[-1] != D.shape[-1]:
        raise ValueError(f"the embedding dims of Q and D don't match: {Q.shape[-1]} and {D.shape[-1]}")
    made = batches(
        Q,
        D,
        None if q_mask is None else as_booleans("q_mask", q_mask),
        None if d_mask is None else as_booleans("d_mask", d_mask),
    )
    queries, documents = _exact(made.Q), _exact(made.D)
    if normalize:
        queries = torch.nn.functional.normalize(queries, dim=-1)
        documents = torch.nn.functional.normalize(documents, dim=-1)
    scores = _sum_of_best(
        torch.einsum("qid,kjd->qkij", queries, documents),
        None if made.q_mask is None else made.q_mask[:, None, :],
        None if made.d_mask is None else made.d_mask[None, :, None, :],
    )
    if made.one_query:
        scores = scores.squeeze(0)
    return scores.squeeze(-1) if made.one_document else scores


def _score_of_pair(query: Tensor, document: Tensor) -> Tensor:
    """Returns the score in float32 of tokens [n, d] and [m, d]; 0 if n or m is 0."""
    if query.shape[0] == 0 or document.shape[0] == 0:
        return query.new_zeros((), dtype=torch.float32)
    return (query.float() @ document.float().T).max(-1).values.sum()


def _sequences(rows: Tensor, cu_seqlens: Tensor) -> "list[Tensor]":
    bounds = cu_seqlens.tolist()
    return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]


def _matrix(scores: "list[Tensor]", shape: "tuple[int, ...]", like: Tensor) -> Tensor:
    return torch.stack(scores).reshape(shape) if scores else like.new_zeros(shape, dtype=torch.float32)


def maxsim_reference_varlen(Q: Tensor, D: Tensor, cu_seqlens_q: Tensor, cu_seqlens_d: Tensor) -> Tensor:
    """Computes maxsim_varlen: [Nq, Nd] in float32, of packed queries and documents."""
    queries, documents = _sequences(Q, cu_seqlens_q), _sequences(D, cu_seqlens_d)
    scores = [_score_of_pair(query, document) for query in queries for document in documents]
    return _matrix(scores, (len(queries), len(documents)), Q)


def maxsim_reference_scatter(
    Q_packed: Tensor,
    D_packed: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_d: Tensor,
    pair_q_idx: Tensor,
    pair_d_idx: Tensor,
) -> Tensor:
    """score_pairs_packed: [num_pairs], in float32."""
    queries, documents = _sequences(Q_packed, cu_seqlens_q), _sequences(D_packed, cu_seqlens_d)
    pairs = zip(pair_q_idx.tolist(), pair_d_idx.tolist())
    scores = [_score_of_pair(queries[query], documents[document]) for query, document in pairs]
    return _matrix(scores, tuple(pair_q_idx.shape), Q_packed)


def maxsim_padded_reference(queries: Tensor, documents: Tensor, query_lengths: Tensor, doc_lengths: Tensor) -> Tensor:
    """Computes maxsim_padded: [B, C] in float32, of queries [B, Lq, d] and documents [B, C, Ld, d]."""
    scores = [
        _score_of_pair(query[:length], document[:document_length])
        for query, length, candidates, lengths in zip(queries, query_lengths.tolist(), documents, doc_lengths.tolist())
        for document, document_length in zip(candidates, lengths)
    ]
    return _matrix(scores, tuple(documents.shape[:2]), queries)


def _before(lengths: Tensor, max_tokens: int, device: torch.device) -> Tensor:
    """Returns the mask [..., max_tokens] of the tokens that are within each length [...]."""
    return torch.arange(max_tokens, device=device) < lengths.to(device).unsqueeze(-1)


def plaid_approx_score_reference(query_centroid_scores: Tensor, codes: Tensor, doc_lengths: Tensor) -> Tensor:
    """Computes plaid.plaid_approx_score: [B] in float32, of scores [n_centroids, Lq] and codes [B, max_Ld]."""
    similarities = query_centroid_scores.float()[codes.long()].transpose(1, 2)  # [B, Lq, max_Ld]
    mask = _before(doc_lengths, codes.shape[1], codes.device)
    return _sum_of_best(similarities, None, mask[:, None, :])


def unpack_residuals_reference(residuals: Tensor, nbits: int, d: int) -> Tensor:
    """Unpacks d codes of `nbits` each from bytes [..., packed]. Returns them as [..., d] in int32. The first code of a
    byte is in its lowest bits."""
    shifts = torch.arange(0, 8, nbits, dtype=torch.int32, device=residuals.device)
    codes = (residuals.to(torch.int32).unsqueeze(-1) >> shifts) & ((1 << nbits) - 1)
    return codes.flatten(-2)[..., :d]


def maxsim_residual_reference(
    Q: Tensor,
    codes: Tensor,
    residuals: Tensor,
    doc_lengths: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    nbits: int,
    *,
    normalize: bool = True,
) -> Tensor:
    """Computes plaid.maxsim_residual: [Nq, Nd] in float32, of queries [Nq, Lq, d] or one query [Lq, d]."""
    queries = (Q.unsqueeze(0) if Q.dim() == 2 else Q).float()
    buckets = unpack_residuals_reference(residuals, nbits, queries.shape[-1]).long()
    tokens = centroids.float()[codes.long()] + bucket_weights.float()[buckets.clamp_max(bucket_weights.numel() - 1)]
    mask = _before(doc_lengths, codes.shape[1], codes.device)
    return maxsim_reference(queries, tokens, d_mask=mask, normalize=normalize)


def maxsim_from_hidden_reference(
    Q: Tensor,
    H_d: Tensor,
    W: Tensor,
    b: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = True,
) -> Tensor:
    """Computes fused_head.maxsim_from_hidden in float32: [Nq, Nd] for queries [Nq, Lq, d_out], [Nd] for one query [Lq,
    d_out], with hidden states [Nd, Ld, d_model]."""
    tokens = torch.nn.functional.linear(H_d.float(), W.float(), None if b is None else b.float())
    if normalize:
        tokens = torch.nn.functional.normalize(tokens, dim=-1)
    return maxsim_reference(Q, tokens, d_mask=d_mask)


__all__ = [
    "NEG_INF",
    "maxsim_from_hidden_reference",
    "maxsim_padded_reference",
    "maxsim_reference",
    "maxsim_reference_scatter",
    "maxsim_reference_varlen",
    "maxsim_residual_reference",
    "plaid_approx_score_reference",
    "unpack_residuals_reference",
]
