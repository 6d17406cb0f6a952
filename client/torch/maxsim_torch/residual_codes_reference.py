"""Residual codes in plain PyTorch: for tests, and to read. It writes the decoded vectors."""

from typing import Any

import torch
from torch import Tensor

from . import reference

_MIN_NORM = 1e-12


def unpack_buckets(residuals: Tensor, nbits: int, bit_order: str = "colbert") -> Tensor:
    """The buckets [..., bytes * 8 / nbits] in int64 that uint8 residuals [..., bytes] hold. In the order "colbert" the
    first column has the highest bits of a byte, and each bucket's lowest bit is the highest of its own; with
    "low_first" both are the other way round."""
    shifts = torch.arange(8, device=residuals.device)
    bits = residuals.unsqueeze(-1).to(torch.int64) >> (shifts.flip(0) if bit_order == "colbert" else shifts) & 1
    buckets: Tensor = (bits.reshape(*bits.shape[:-1], 8 // nbits, nbits) << shifts[:nbits]).sum(-1).flatten(-2)
    return buckets


def decompress_residual_codes(
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    *,
    normalize: bool = True,
    bit_order: str = "colbert",
) -> Tensor:
    """The vectors [..., d] in the type of the centroids that residual codes stand for, in plain PyTorch.

    centroid_numbers: integers [...], of rows of `centroids`. residuals: uint8 [..., d * nbits / 8]. centroids: [C, d].
    bucket_weights: [2^nbits], which say nbits: 1, 2, 4 or 8. A vector is the sum of its centroid and of the weight of
    each column's bucket, and with `normalize` that divided by its norm.

    bit_order: how buckets share a byte. "colbert": as ColBERT, PLAID and fast-plaid write them, the first column in the
    highest bits, with the bits of a bucket in reverse. "low_first": the first column in the lowest bits.
    """
    nbits = bucket_weights.numel().bit_length() - 1
    # The weights of the columns that share a byte, for each value of the byte.
    values = torch.arange(256, device=residuals.device).to(torch.uint8).unsqueeze(-1)
    table = bucket_weights.to(centroids.dtype)[unpack_buckets(values, nbits, bit_order)]
    vectors: Tensor = centroids[centroid_numbers.to(torch.int64)] + table[residuals.to(torch.int64)].flatten(-2)
    if not normalize:
        return vectors
    wide = vectors if vectors.dtype == torch.float64 else vectors.to(torch.float32)
    norms = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    vectors = (wide / norms.clamp_min(_MIN_NORM)).to(centroids.dtype)
    return vectors


def residual_code_scores(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    *,
    normalize: bool = True,
    bit_order: str = "colbert",
    **arguments: Any,
) -> "Tensor | tuple[Tensor, Tensor]":
    """maxsim_torch.residual_code_scores of padded documents and queries [Nq, Lq, d], in the type of the queries. Other
    arguments are those of reference.maxsim_scores."""
    documents = decompress_residual_codes(
        centroid_numbers,
        residuals,
        centroids.to(queries.dtype),
        bucket_weights,
        normalize=normalize,
        bit_order=bit_order,
    )
    return reference.maxsim_scores(queries, documents, **arguments)
