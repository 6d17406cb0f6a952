"""Batches of documents in the form in which a shard stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .codebook import Codebook
from .limits import DATA_BEGIN

WORD_BYTES = 8


@dataclass(frozen=True)
class Layout:
    """The properties that all shards of a collection share."""

    dim: int
    storage: str
    id_type: str
    rotation_seed: int
    codebook: Optional[Codebook] = None  # of residual codes

    @property
    def columns(self) -> int:
        """The number of elements of a stored row. For residual codes, the elements are bytes."""
        return self.dim if self.codebook is None else self.codebook.row_bytes

    @property
    def row_bytes(self) -> int:
        return self.columns * self.value_type.itemsize

    @property
    def value_type(self) -> np.dtype[Any]:
        if self.codebook is not None:
            return np.dtype(np.uint8)
        names = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "i8": np.int8}
        return np.dtype(names[self.storage])

    def empty_bytes(self, has_payloads: bool) -> int:
        """Returns the size of a shard file without documents: the header, and the first entry of every array of
        offsets."""
        num_offsets = 1 + (self.id_type == "string") + has_payloads
        codebook = self.codebook
        codebook_bytes = 0 if codebook is None else codebook.centroids.nbytes + codebook.bucket_weights.nbytes
        return DATA_BEGIN + num_offsets * WORD_BYTES + codebook_bytes

    def document_bytes(self, batch: Batch, has_payloads: bool) -> NDArray[np.int64]:
        """Returns the bytes that each document takes in a shard file."""
        sizes = batch.lengths * self.row_bytes + 2 * WORD_BYTES
        if batch.id_sizes is not None:
            sizes += batch.id_sizes
        if has_payloads:
            sizes += WORD_BYTES + batch.payload_sizes
        if self.storage == "i8":
            sizes += 4
        return sizes


@dataclass(frozen=True)
class Batch:
    """Documents in stored form. Their ids are either integers, or strings as bytes with their sizes."""

    tokens: NDArray[Any]  # Their shape is [rows, Layout.columns], their type Layout.value_type.
    lengths: NDArray[np.int64]
    int_ids: Optional[NDArray[np.int64]]
    id_sizes: Optional[NDArray[np.int64]]
    id_bytes: bytes
    payload_sizes: NDArray[np.int64]
    payload_bytes: bytes
    scales: Optional[NDArray[np.float32]]  # one per document for i8 storage, otherwise None

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, first: int, last: int) -> Batch:
        """Returns the documents `first` .. `last` - 1."""
        if first == 0 and last == len(self):
            return self

        def cut(sizes: NDArray[np.int64]) -> slice:
            return slice(int(sizes[:first].sum()), int(sizes[:last].sum()))

        return Batch(
            tokens=self.tokens[cut(self.lengths)],
            lengths=self.lengths[first:last],
            int_ids=None if self.int_ids is None else self.int_ids[first:last],
            id_sizes=None if self.id_sizes is None else self.id_sizes[first:last],
            id_bytes=b"" if self.id_sizes is None else self.id_bytes[cut(self.id_sizes)],
            payload_sizes=self.payload_sizes[first:last],
            payload_bytes=self.payload_bytes[cut(self.payload_sizes)],
            scales=None if self.scales is None else self.scales[first:last],
        )
