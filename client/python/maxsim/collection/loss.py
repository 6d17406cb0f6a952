"""Counts lossy tokens, which i8 storage represents badly. collection/quantization_loss.h does the same, and explains
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A token is coarse if the rounding error exceeds this share of its length.
MAX_ROUNDING_SHARE = 0.25


@dataclass(frozen=True)
class QuantizationLoss:
    """num_documents: documents that have lossy tokens. num_zeroed: tokens that became zeros. num_coarse: tokens that
    are not zeros and lost more than MAX_ROUNDING_SHARE of their length to rounding."""

    num_documents: int = 0
    num_zeroed: int = 0
    num_coarse: int = 0

    def __add__(self, other: QuantizationLoss) -> QuantizationLoss:
        return QuantizationLoss(
            self.num_documents + other.num_documents,
            self.num_zeroed + other.num_zeroed,
            self.num_coarse + other.num_coarse,
        )

    @property
    def num_tokens(self) -> int:
        return self.num_zeroed + self.num_coarse

    def __str__(self) -> str:
        kinds = []
        if self.num_zeroed:
            kinds.append(f"{self.num_zeroed:,} became zeros")
        if self.num_coarse:
            kinds.append(f"of {self.num_coarse:,} rounding took more than {MAX_ROUNDING_SHARE:.0%} of the length")
        tokens = "1 token" if self.num_tokens == 1 else f"{self.num_tokens:,} tokens"
        documents = "1 document" if self.num_documents == 1 else f"{self.num_documents:,} documents"
        return f"{tokens} of {documents} ({', '.join(kinds)})".replace("%", " %")


def lossy_rows(elements: NDArray[np.int8], rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the numbers of the rows that became zeros and of the rows that are coarse. `elements` [n, dim] are the
    quantised `rows` [n, dim]."""
    least = int(elements.shape[1] / (12 * MAX_ROUNDING_SHARE * MAX_ROUNDING_SHARE))
    sums = np.einsum("ij,ij->i", elements, elements, dtype=np.int32)
    found = np.flatnonzero(sums <= least)
    coarse = found[sums[found] > 0]
    zeroed = found[sums[found] == 0]
    return zeroed[np.any(rows[zeroed] != 0, axis=1)], coarse
