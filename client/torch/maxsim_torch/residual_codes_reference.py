"""Residual codes in plain PyTorch: the reference for tests, and a readable definition. Unlike the operators, it keeps
all decoded vectors in memory."""

from typing import Any

import torch
from torch import Tensor

from . import reference
from .checks import check_tensors
from .residual_codes_operators import BIT_ORDERS, NBITS
from .tokens import indices

_MIN_NORM = 1e-12


def check_codes(
    centroid_numbers: Tensor, residuals: Tensor, centroids: Tensor, bucket_weights: Tensor, bit_order: str
) -> Tensor:
    """Refuses codes that do not fit together. Returns the centroid numbers in int32 or int64."""
    check_tensors(
        centroid_numbers=centroid_numbers, residuals=residuals, centroids=centroids, bucket_weights=bucket_weights
    )
    if centroids.dim() != 2 or not centroids.is_floating_point():
        raise ValueError(f"centroids are {centroids.dtype} {tuple(centroids.shape)}; must be floats [centroids, d]")
    dim = centroids.shape[1]
    if bucket_weights.dim() != 1 or int(bucket_weights.numel()) not in NBITS or not bucket_weights.is_floating_point():
        raise ValueError(
            f"bucket_weights are {bucket_weights.dtype} {tuple(bucket_weights.shape)}; must be 2, 4, 16 or 256 floats"
        )
    nbits = NBITS[int(bucket_weights.numel())]
    if dim * nbits % 8 != 0:
        raise ValueError(f"centroids have {dim} columns; {nbits} bits per value need a multiple of {8 // nbits}")
    wanted = (*centroid_numbers.shape, dim * nbits // 8)
    if residuals.dtype != torch.uint8 or tuple(residuals.shape) != wanted:
        raise ValueError(f"residuals are {residuals.dtype} {tuple(residuals.shape)}; must be torch.uint8 {wanted}")
    if bit_order not in BIT_ORDERS:
        raise ValueError(f'bit_order is {bit_order!r}; must be "colbert" or "low_first"')
    return indices("centroid_numbers", centroid_numbers, tuple(centroid_numbers.shape))


def unpack_buckets(residuals: Tensor, nbits: int, bit_order: str = "colbert") -> Tensor:
    """Returns the buckets [..., bytes * 8 / nbits] in int64 that are packed in uint8 residuals [..., bytes]. In the
    order "colbert" the first column is in the highest bits of a byte, and the bits of each bucket are reversed: its
    lowest bit is stored highest. In the order "low_first" the first column is in the lowest bits, and buckets are not
    reversed."""
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
    """Decodes residual codes in plain PyTorch: returns vectors [..., d] in the type of the centroids.

    centroid_numbers: integers [...], indices of rows of `centroids`; a negative one counts from the end, as in PyTorch.
    residuals: uint8 [..., d * nbits / 8]. centroids: [C, d]. bucket_weights: [2^nbits]; their number determines nbits,
    which is 1, 2, 4 or 8. A vector is its centroid plus, in each column, the weight of the column's bucket; with
    `normalize` the vector is then divided by its norm.

    bit_order: how buckets share a byte. "colbert", the order of ColBERT, PLAID and fast-plaid: the first column is in
    the highest bits, and the bits of each bucket are reversed. "low_first": the first column is in the lowest bits.

    Raises ValueError for codes that do not fit together, and TypeError for wrong types.
    """
    numbers = check_codes(centroid_numbers, residuals, centroids, bucket_weights, bit_order)
    nbits = NBITS[int(bucket_weights.numel())]
    # The weights of the columns that share a byte, for each value of the byte.
    values = torch.arange(256, device=residuals.device).to(torch.uint8).unsqueeze(-1)
    table = bucket_weights.to(centroids.dtype)[unpack_buckets(values, nbits, bit_order)]
    vectors: Tensor = centroids[numbers.to(torch.int64)] + table[residuals.to(torch.int64)].flatten(-2)
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
    """Computes maxsim_torch.residual_code_scores of padded documents and queries [Nq, Lq, d], in the type of the
    queries. Other arguments are those of reference.maxsim_scores."""
    documents = decompress_residual_codes(
        centroid_numbers,
        residuals,
        centroids.to(queries.dtype),
        bucket_weights,
        normalize=normalize,
        bit_order=bit_order,
    )
    return reference.maxsim_scores(queries, documents, **arguments)
