"""Decodes token vectors of ColBERTv2's residual compression, which PLAID and similar indexes use.

A token vector is stored as the number of its centroid and, for each column, `nbits` bits that select a bucket for the
difference to the centroid: vector = normalize(centroid + bucket weights). 8 / nbits columns share a byte, the first
column in the highest bits. Within a column's bits, the order is reversed: the lowest bit comes first."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from maxsim.collection.codebook import Codebook
from maxsim.collection.errors import CollectionError
from maxsim.importers.readers.prefetch import prefetched
from maxsim.importers.source import SourceError

# Rows that are decoded in one step: 4 MiB at 128 columns. Blocks of 1,024 to 8,192 rows are equally fast; with
# 32,768, a row takes twice the time.
_BLOCK_ROWS = 8_192
_MIN_NORM = 1e-12


class ResidualCodec:
    """Decodes the residual codes of one index. centroids: [K, dim]. bucket_weights: [2^nbits]. where: the index's
    folder, for errors."""

    def __init__(self, centroids: np.ndarray, bucket_weights: np.ndarray, nbits: int, where: str) -> None:
        if nbits not in (1, 2, 4, 8):
            raise SourceError(f"{where}: nbits is {nbits}; must be 1, 2, 4 or 8")
        if centroids.ndim != 2 or centroids.dtype.kind != "f" or 0 in centroids.shape:
            raise SourceError(f"{where}: centroids have shape {list(centroids.shape)}; must be [centroids, dim]")
        if bucket_weights.shape != (2**nbits,) or bucket_weights.dtype.kind != "f":
            raise SourceError(f"{where}: bucket weights have shape {list(bucket_weights.shape)}; must be [{2**nbits}]")
        if centroids.shape[1] * nbits % 8:
            raise SourceError(f"{where}: {centroids.shape[1]} columns of {nbits} bits do not fill bytes")
        self._centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self._weights = np.ascontiguousarray(bucket_weights, dtype=np.float32)
        self._codebook: Optional[Codebook] = None
        self._where = where
        self.dim = int(centroids.shape[1])
        self.packed_columns = self.dim * nbits // 8
        # For each value of a byte, the bucket weights of the columns that share it.
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).reshape(256, 8 // nbits, nbits)
        buckets = (bits.astype(np.int64) << np.arange(nbits)).sum(axis=2)
        self._residuals = np.ascontiguousarray(bucket_weights, dtype=np.float32)[buckets]

    def keep_codes(self) -> Codebook:
        """Makes decode_documents return coded rows instead of vectors. Returns the codebook of these rows.
        SourceError if a collection cannot hold the index without change."""
        with np.errstate(over="ignore"):
            centroids = self._centroids.astype(np.float16)
        try:
            self._codebook = Codebook(centroids, self._weights)
        except CollectionError as error:
            raise SourceError(f"{self._where}: {error}") from None
        return self._codebook

    @property
    def rounds_centroids(self) -> bool:
        """Returns true if keep_codes rounds centroids, because they are not float16."""
        return not np.array_equal(self._centroids, self._centroids.astype(np.float16))

    @property
    def columns(self) -> int:
        """The number of columns of the rows that decode_documents returns."""
        return self.dim if self._codebook is None else self._codebook.row_bytes

    def decode(self, codes: np.ndarray, packed: np.ndarray) -> np.ndarray:
        """Decodes centroid numbers [rows] and packed buckets [rows, packed_columns]. Returns vectors [rows, dim],
        float32 of norm 1, or, after keep_codes, coded rows (Codebook.rows)."""
        if len(codes):
            lowest, highest = int(codes.min()), int(codes.max())
            if lowest < 0 or highest >= len(self._centroids):
                wrong = lowest if lowest < 0 else highest
                raise SourceError(f"{self._where}: a token has centroid {wrong} of {len(self._centroids)}")
        if self._codebook is not None:
            return self._codebook.rows(codes, packed)
        # take() is ten times as fast as indexing.
        vectors: np.ndarray = np.take(self._residuals, packed, axis=0).reshape(len(codes), self.dim)
        vectors += np.take(self._centroids, codes, axis=0)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.maximum(norms, np.float32(_MIN_NORM))[:, None]
        return vectors

    def decode_documents(
        self, lengths: Sequence[int], codes: np.ndarray, packed: np.ndarray
    ) -> Iterator[Tuple[np.ndarray, Sequence[int]]]:
        """Decodes documents that follow one another in codes [rows] and packed [rows, packed_columns]. Yields many
        documents at a time: their vectors [sum of their lengths, dim] and their lengths."""
        if packed.ndim != 2 or packed.shape[1] != self.packed_columns or packed.dtype != np.uint8:
            raise SourceError(
                f"{self._where}: residuals are {packed.dtype} {list(packed.shape)}; "
                f"must be uint8 [rows, {self.packed_columns}]"
            )
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or not sum(lengths) <= len(codes) <= len(packed):
            raise SourceError(f"{self._where}: documents have {sum(lengths)} tokens, but there are {len(codes)} codes")
        # Decodes a block in another thread, while the caller uses the previous block. NumPy releases the
        # interpreter's lock.
        return prefetched(self._blocks(lengths, codes, packed))

    def _blocks(
        self, lengths: Sequence[int], codes: np.ndarray, packed: np.ndarray
    ) -> Iterator[Tuple[np.ndarray, Sequence[int]]]:
        """Yields the decoded rows of documents, and the documents' lengths."""
        begin = 0
        row = 0
        while begin < len(lengths):
            end = begin + 1
            rows = lengths[begin]
            while end < len(lengths) and rows + lengths[end] <= _BLOCK_ROWS:
                rows += lengths[end]
                end += 1
            yield self.decode(codes[row : row + rows], packed[row : row + rows]), lengths[begin:end]
            row += rows
            begin = end
