"""Scores documents of a PLAID or ColBERTv2 index: centroids and packed residuals."""

from typing import Optional

import torch
from torch import Tensor

from ...functions import maxsim_scores, maxsim_scores_packed
from ...residual_codes import residual_code_scores
from ...residual_codes_reference import decompress_residual_codes
from ._scoring import same_type, unit_length
from ._utils import longest_sequence
from .reference import maxsim_residual_reference, plaid_approx_score_reference


def plaid_approx_score(query_centroid_scores: Tensor, codes: Tensor, doc_lengths: Tensor) -> Tensor:
    """Returns approximate scores [B] in float32, which use only the documents' centroids: for each query token the best
    of the document's centroids, summed over query tokens. There are no gradients.

    `query_centroid_scores` is [n_centroids, Lq]. `codes` [B, max_Ld] are integers; one that is out of range counts as
    centroid 0. `doc_lengths` [B] are the numbers of tokens. A document without tokens scores 0. ValueError: shapes do
    not fit.
    """
    if query_centroid_scores.dim() != 2:
        raise ValueError(
            f"query_centroid_scores must be [n_centroids, Lq]; they are {tuple(query_centroid_scores.shape)}"
        )
    if codes.dim() != 2:
        raise ValueError(f"codes must be [B, max_Ld]; they are {tuple(codes.shape)}")
    if doc_lengths.shape != codes.shape[:1]:
        raise ValueError(f"doc_lengths must be {tuple(codes.shape[:1])}; they are {tuple(doc_lengths.shape)}")
    table = query_centroid_scores.detach().to(torch.float32)
    num_centroids = table.shape[0]
    codes = codes.to(torch.int64)
    codes = torch.where((codes >= 0) & (codes < num_centroids), codes, torch.zeros_like(codes))
    # embedding_bag takes the maximum without writing the rows. An additional row stands for missing tokens.
    there = torch.arange(codes.shape[1], device=codes.device) < doc_lengths.to(codes.device).unsqueeze(-1)
    codes = torch.where(there, codes, torch.full_like(codes, num_centroids))
    table = torch.cat([table, table.new_zeros(1, table.shape[1])])
    best = torch.nn.functional.embedding_bag(codes, table, mode="max", padding_idx=num_centroids)
    return best.sum(-1)


def _check_index(
    Q: Tensor, residuals: Tensor, centroids: Tensor, bucket_weights: Tensor, nbits: int
) -> "tuple[Tensor, Tensor, Tensor]":
    """Checks an index. Returns residuals, centroids and weights in the operators' types."""
    if nbits not in (2, 4, 8):
        raise ValueError(f"nbits must be 2, 4 or 8; it is {nbits}")
    packed_dim = (Q.shape[-1] * nbits + 7) // 8
    if residuals.shape[-1] != packed_dim:
        raise ValueError(
            f"the last dimension of residuals is {residuals.shape[-1]}; with d={Q.shape[-1]} and nbits={nbits} it "
            f"must be {packed_dim}"
        )
    if bucket_weights.numel() != 1 << nbits:
        raise ValueError(
            f"there are {bucket_weights.numel()} bucket_weights; with nbits={nbits} there must be {1 << nbits}"
        )
    return residuals.to(torch.uint8), centroids.detach(), bucket_weights.detach().float().reshape(-1)


def _queries(Q: Tensor, normalize: bool) -> Tensor:
    Q, _ = same_type(Q, Q)
    return unit_length(Q) if normalize else Q


def _scores(
    queries: Tensor,
    codes: Tensor,
    index: "tuple[Tensor, Tensor, Tensor]",
    nbits: int,
    normalize: bool,
    *,
    document_lengths: Optional[Tensor] = None,
    document_offsets: Optional[Tensor] = None,
) -> Tensor:
    """Scores padded documents, which have lengths, or packed ones, which have offsets. `index` are the residuals,
    centroids and weights that _check_index returns."""
    residuals, centroids, weights = index
    if queries.shape[-1] * nbits % 8 == 0:
        return residual_code_scores(
            queries,
            codes,
            residuals,
            centroids.to(queries.dtype),
            weights,
            document_lengths=document_lengths,
            document_offsets=document_offsets,
            normalize=normalize,
            bit_order="low_first",
            empty_score=0.0,
        )
    # The operator does not decode tokens whose last byte is only partly used.
    spare = residuals.shape[-1] * 8 // nbits - queries.shape[-1]
    wide = torch.nn.functional.pad(centroids.float(), (0, spare))
    vectors = decompress_residual_codes(codes, residuals, wide, weights, normalize=False, bit_order="low_first")
    vectors = vectors[..., : queries.shape[-1]].to(queries.dtype)
    documents = unit_length(vectors) if normalize else vectors
    if document_offsets is None:
        return maxsim_scores(queries, documents, document_lengths=document_lengths, empty_score=0.0)
    return maxsim_scores_packed(queries, documents, document_offsets, empty_score=0.0)


def maxsim_residual(
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
    """Returns the scores [Nq, Nd] in float32 of queries [Nq, Lq, d], or [Nd] of one query [Lq, d]. Only Q can have
    gradients.

    A token's vector is the centroid [n_centroids, d] that its code names, plus, in each column, one of the 2^nbits
    `bucket_weights`, which its packed residual names. `codes` [Nd, max_Ld] are integers. `residuals` are bytes [Nd,
    max_Ld, ceil(d * nbits / 8)], the first column in the lowest bits. `doc_lengths` [Nd] are the numbers of tokens.
    `nbits` is 2, 4 or 8. With `normalize`, queries and vectors are divided by their lengths. If d * nbits is a multiple
    of 8, vectors are decoded inside the kernel (maxsim_torch.residual_code_scores), otherwise all of them in advance.

    An empty document scores 0, but it is a ValueError if Q requires a gradient, as in late-interaction-kernels. This
    check waits for the lengths. ValueError also for other `nbits` and for shapes that do not fit.
    """
    if codes.dim() != 2:
        raise ValueError(f"codes must be [Nd, max_Ld]; they are {tuple(codes.shape)}")
    if residuals.dim() != 3:
        raise ValueError(f"residuals must be [Nd, max_Ld, packed]; they are {tuple(residuals.shape)}")
    index = _check_index(Q, residuals, centroids, bucket_weights, nbits)
    if Q.requires_grad and bool((doc_lengths < 1).any()):
        raise ValueError("a zero-length document has no gradient: leave it out, or score it without gradients of Q")
    lengths = doc_lengths.to(torch.int64)
    return _scores(_queries(Q, normalize), codes, index, nbits, normalize, document_lengths=lengths)


def maxsim_residual_varlen(
    Q: Tensor,
    codes_flat: Tensor,
    residuals_flat: Tensor,
    cu_seqlens_d: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    nbits: int,
    *,
    max_seqlen_d: Optional[int] = None,
    normalize: bool = True,
) -> Tensor:
    """Does what maxsim_residual does, without gradients, for documents that follow one another: `codes_flat` [tokens],
    `residuals_flat` [tokens, ceil(d * nbits / 8)]. Document i is from cu_seqlens_d[i] to cu_seqlens_d[i + 1].

    `max_seqlen_d` is an upper limit of the documents' tokens, or None. A document that exceeds it is a RuntimeError,
    which on a GPU comes with a later call. With None, nothing is checked.
    """
    for name, tensor, wanted in (
        ("codes_flat", codes_flat, 1),
        ("residuals_flat", residuals_flat, 2),
        ("cu_seqlens_d", cu_seqlens_d, 1),
    ):
        if tensor.dim() != wanted:
            raise ValueError(f"{name} must be {wanted}-D; it is {tuple(tensor.shape)}")
    index = _check_index(Q, residuals_flat, centroids, bucket_weights, nbits)
    if max_seqlen_d is not None:
        longest_sequence(cu_seqlens_d, max_seqlen_d, "max_seqlen_d")
    queries = _queries(Q.detach(), normalize)
    return _scores(queries, codes_flat, index, nbits, normalize, document_offsets=cu_seqlens_d)


__all__ = [
    "maxsim_residual",
    "maxsim_residual_reference",
    "maxsim_residual_varlen",
    "plaid_approx_score",
    "plaid_approx_score_reference",
]
