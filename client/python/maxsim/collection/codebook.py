"""The codebook that decodes the rows of residual codes (kernels/residual_codes.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .errors import CollectionError
from .limits import MAX_CENTROIDS, MAX_RESIDUAL_DIM, MAX_RESIDUAL_VALUE, MIN_DIM

# The number of bytes that a centroid's number takes. They are the last bytes of a row.
NUMBER_BYTES = 4


@dataclass(frozen=True)
class Codebook:
    """The codebook of a collection of residual codes. centroids: float16 [K, dim]. bucket_weights: float32 [2^nbits],
    where nbits is 1, 2, 4 or 8. CollectionError: an array has another type or shape, or a value is not finite or
    exceeds the limit."""

    centroids: NDArray[np.float16]
    bucket_weights: NDArray[np.float32]

    def __post_init__(self) -> None:
        centroids, weights = self.centroids, self.bucket_weights
        if centroids.dtype != np.float16 or centroids.ndim != 2 or not 1 <= len(centroids) <= MAX_CENTROIDS:
            raise CollectionError(
                f"{centroids.dtype} {list(centroids.shape)}; must be float16 [1 .. {MAX_CENTROIDS}, dim]",
                field="codebook.centroids",
            )
        if weights.dtype != np.float32 or weights.shape not in ((2,), (4,), (16,), (256,)):
            raise CollectionError(
                f"{weights.dtype} {list(weights.shape)}; must be 2, 4, 16 or 256 of float32",
                field="codebook.bucket_weights",
            )
        if not MIN_DIM <= self.dim <= MAX_RESIDUAL_DIM or self.dim * self.nbits % 8:
            raise CollectionError(
                f"{self.dim} columns of {self.nbits} bits; must be {MIN_DIM} to {MAX_RESIDUAL_DIM}, and their bits "
                "must fill whole bytes",
                field="codebook.centroids",
            )
        for name, values in (("centroids", centroids), ("bucket_weights", weights)):
            # `not (... <= ...)` instead of `>`, so that NaN is refused.
            if not bool((np.abs(values) <= MAX_RESIDUAL_VALUE).all()):
                raise CollectionError(
                    f"a value is not finite, or beyond {MAX_RESIDUAL_VALUE:g}", field=f"codebook.{name}"
                )

    @property
    def dim(self) -> int:
        return int(self.centroids.shape[1])

    @property
    def nbits(self) -> int:
        return len(self.bucket_weights).bit_length() - 1

    @property
    def storage(self) -> str:
        return f"residual{self.nbits}"

    @property
    def row_bytes(self) -> int:
        return self.dim * self.nbits // 8 + NUMBER_BYTES

    def check_options(self, dim: int, storage: Optional[str], codes: Optional[int]) -> None:
        """Raises CollectionError if a collection with these options cannot have this codebook."""
        if self.dim != dim:
            raise CollectionError(f"has {self.dim} columns, but dim is {dim}", field="codebook")
        if storage not in (None, self.storage):
            raise CollectionError(f"{storage}, but the codebook's is {self.storage}", field="storage")
        if codes:
            raise CollectionError(f"{codes}: residual codes have no other codes beside them", field="codes")

    def rows(self, numbers: NDArray[Any], residuals: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Joins centroid numbers [tokens] and packed buckets [tokens, dim * nbits / 8] (ColBERT's bit order) into rows
        as shards store them: uint8 [tokens, row_bytes]."""
        rows = np.empty((len(numbers), self.row_bytes), np.uint8)
        rows[:, :-NUMBER_BYTES] = residuals
        rows[:, -NUMBER_BYTES:] = numbers.astype("<u4").view(np.uint8).reshape(-1, NUMBER_BYTES)
        return rows

    def numbers(self, rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Returns the centroid numbers of stored rows, as an array [tokens]."""
        return np.ascontiguousarray(rows[:, -NUMBER_BYTES:]).view("<u4").reshape(-1)
