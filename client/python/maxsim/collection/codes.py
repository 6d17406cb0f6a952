"""Codes of documents: 1, 2 or 4 bits for each value of a stored vector, and bounds of their error.

The results have the same bits as those of maxsim-shard: every FP64 sum and product is the one of
kernels/codes/encode.cc, in the same order. The code works on transposed rows, so that NumPy's sums over columns have
long inner loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .limits import PLANE_COUNTS
from .quantize import Rotation, padded_columns
from .values import aligned_empty, to_float32

MAX_FACTOR = 255
MIN_NOMINAL_NORM = 1e-28

# Codes have a factor per token if norms spread more than this: the root mean square of (norm / typical norm - 1),
# measured on SAMPLED_DOCUMENTS documents.
MAX_NORM_SPREAD = 0.05
SAMPLED_DOCUMENTS = 1000

# From kernels/codes/code_levels.h: the bounds between cells, then, for 2 and 4 bits, the integer of each cell, and, for
# 1, 2 and 4 bits, the value of one unit of these integers. With 1 bit, every cell has the integer 1.
_CELL_CUTS = (
    0.25822166467071866,
    0.5224037090113762,
    0.799549787509712,
    1.0992858269170702,
    1.43713879168453,
    1.8435318062766282,
    2.400803398763277,
)
_LEVELS = (
    np.array([13.0] * 4 + [42.0] * 4),
    np.array([2.0 * half + 1 for half in (5, 18, 30, 43, 58, 75, 96, 127)]),
)
_LEVEL_UNITS = (0.7978845608028654, 0.038218415333958436, 0.010735900652971092)

_INFLATION = 1 + 2.0**-40
_BLOCK_VALUES = 1 << 18


def num_words(dim: int) -> int:
    """Returns the number of 32-bit words in a row of plane 0."""
    return -(-dim // 32)


@dataclass(frozen=True)
class CodesFormat:
    """The properties that the codes of all documents of a collection share."""

    planes: int
    factors: bool
    rotation_seed: int

    @property
    def num_files(self) -> int:
        return PLANE_COUNTS.index(self.planes) + 1


@dataclass(frozen=True)
class Codes:
    """Codes of some documents: the rows of each plane, and the values per document and per token."""

    planes: list[NDArray[np.uint8]]  # one for each plane: [tokens, bytes of a row]
    factors: Optional[NDArray[np.uint8]]
    scales: NDArray[np.float32]
    bounds: list[NDArray[np.float16]]  # [documents, 4]


def _sum_in_lanes(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sum of each column of `terms` [dim, n], added in four partial sums, in the order of the C++
    encoder."""
    lanes = np.zeros((4, terms.shape[1]))
    for begin in range(0, len(terms), 4):
        some = terms[begin : begin + 4]
        lanes[: len(some)] += some
    sums: NDArray[np.float64] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    return sums


def _sums_of_squares(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the sum of the squares of each row. `rows` is transposed: [dim, n]."""
    squares = rows.astype(np.float64)
    squares *= squares
    return _sum_in_lanes(squares)


def _wide_rows(rows: NDArray[Any], storage: str) -> NDArray[np.float32]:
    """Returns stored rows in F32: the values or, for i8, the elements."""
    if storage == "i8":
        return rows.astype(np.float32)
    wide: NDArray[np.float32] = to_float32(rows, storage)
    return wide


def squared_norm_deviations(rows: NDArray[Any], storage: str) -> float:
    """Returns the sum over a document's tokens of (norm / root mean square of the norms - 1) squared."""
    norms = np.sqrt(_sums_of_squares(np.ascontiguousarray(_wide_rows(rows, storage).T)))
    typical = math.sqrt(float(np.add.accumulate(norms * norms)[-1]) / len(norms))
    return float(((norms / typical - 1) ** 2).sum()) if typical > 0 else 0.0


def _round_up_to_f16(values: NDArray[np.float64]) -> NDArray[np.float16]:
    singles = values.astype(np.float32)
    below = singles.astype(np.float64) < values
    singles[below] = np.nextafter(singles[below], np.float32(np.inf))
    halves = singles.astype(np.float16)
    bits = halves.view(np.uint16).copy()
    bits[halves.astype(np.float32) < singles] += 1
    return bits.view(np.float16)


def _pack(bits: NDArray[np.uint8], dim: int) -> NDArray[np.uint8]:
    """Packs bits [columns of whole words, n] into rows of a plane, [n, 4 * words] (kernels/codes/code_layout.h)."""
    groups = num_words(dim) // 4
    parts = []
    for begin, end, num_bytes in ((0, groups * 128, 16), (groups * 128, len(bits), 4)):
        part = bits[begin:end].reshape(-1, 8, num_bytes, bits.shape[1])
        packed = np.zeros((len(part), num_bytes, bits.shape[1]), dtype=np.uint8)
        for bit in range(8):
            packed |= part[:, bit] << np.uint8(bit)
        parts.append(packed.reshape(-1, bits.shape[1]))
    return np.ascontiguousarray(np.concatenate(parts).T)


def _pack_fields(fields: NDArray[np.uint8], dim: int) -> NDArray[np.uint8]:
    """Packs fields of two bits into rows of planes 2 and 3, [n, 8 * words]."""
    count = fields.shape[1]
    groups = num_words(dim) // 4
    parts = []
    for begin, end, num_bytes in ((0, groups * 128, 16), (groups * 128, len(fields), 4)):
        part = fields[begin:end].reshape(-1, 8, num_bytes // 4, 4, count)
        packed = np.zeros((len(part), num_bytes // 4, 2, 4, count), dtype=np.uint8)
        for bit in range(8):
            packed[:, :, bit % 2] |= part[:, bit] << np.uint8(bit // 2 * 2)
        parts.append(packed.reshape(-1, count))
    return np.ascontiguousarray(np.concatenate(parts).T)


class _Measures:
    """The inputs of the error bounds for some tokens: the norms of the vectors and, for each number of planes, the
    products of the vectors with their levels (the integers that codes stand for) and the squared lengths of the
    levels."""

    def __init__(self, num_files: int, num_tokens: int) -> None:
        self.norms = np.empty(num_tokens)
        self.products = np.empty((num_files, num_tokens))
        self.squared_lengths = np.empty((num_files, num_tokens))


class CodesEncoder:
    """Encodes stored documents. Thread-safe."""

    def __init__(self, dim: int, storage: str, codes: CodesFormat) -> None:
        self._dim = dim
        self._storage = storage
        self._codes = codes
        self._rotation = None if storage == "i8" else Rotation(codes.rotation_seed, dim)
        self._block_rows = max(64, _BLOCK_VALUES // dim)

    def encode(
        self, rows: NDArray[Any], lengths: NDArray[np.int64], scales: Optional[NDArray[np.float32]]
    ) -> Codes:
        """Encodes documents of `lengths` tokens. `rows` [tokens, dim] holds the stored rows of all documents, one
        document after another. With i8, `scales` has one scale per document."""
        originals = np.ones(len(rows)) if scales is None else np.repeat(scales.astype(np.float64), lengths)
        words = num_words(self._dim)
        planes = [
            np.empty((len(rows), size), dtype=np.uint8) for size in (4 * words, 4 * words, 8 * words)
        ][: self._codes.num_files]
        measures = _Measures(len(planes), len(rows))
        for begin in range(0, len(rows), self._block_rows):
            block = slice(begin, min(begin + self._block_rows, len(rows)))
            self._encode_block(rows[block], originals[block], block, planes, measures)
        return self._bound(planes, measures, lengths)

    def _turn(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the rows that are encoded, widened and rotated as necessary, and transposed: [dim, n]."""
        wide = _wide_rows(rows, self._storage)
        if self._rotation is None:
            return np.ascontiguousarray(wide.T)
        stride = padded_columns(len(wide))
        work, spare = (aligned_empty(self._dim * stride, np.float32).reshape(self._dim, stride) for _ in range(2))
        self._rotation.turn(wide, work, spare)
        return work[:, : len(wide)]

    def _encode_block(
        self,
        rows: NDArray[Any],
        originals: NDArray[np.float64],
        block: slice,
        planes: list[NDArray[np.uint8]],
        measures: _Measures,
    ) -> None:
        dim, count = self._dim, len(rows)
        turned = self._turn(rows)
        squares = _sums_of_squares(turned)
        measures.norms[block] = np.sqrt(squares) * originals
        lengths = np.abs(turned)
        positive = np.zeros((num_words(dim) * 32, count), dtype=np.uint8)
        positive[:dim] = ~(turned < 0)
        planes[0][block] = _pack(positive, dim)
        measures.products[0, block] = _sum_in_lanes(lengths.astype(np.float64)) * originals
        measures.squared_lengths[0, block] = dim
        if len(planes) == 1:
            return
        rms = np.sqrt(squares / dim)
        magnitudes = np.zeros_like(positive)
        for cut in _CELL_CUTS:
            magnitudes[:dim] += lengths > (cut * rms).astype(np.float32)
        for which in range(1, len(planes)):
            levels = _LEVELS[which - 1][magnitudes[:dim]]
            measures.products[which, block] = _sum_in_lanes(lengths * levels) * originals
            # The terms are integers, so the sum is exact.
            measures.squared_lengths[which, block] = np.square(levels).sum(axis=0)
        planes[1][block] = _pack(magnitudes >> np.uint8(2), dim)
        if len(planes) > 2:
            planes[2][block] = _pack_fields(magnitudes & np.uint8(3), dim)

    def _nominal_norm(self, scale: np.float32) -> float:
        return float(scale) * math.sqrt(self._dim) * (MAX_FACTOR if self._codes.factors else 1)

    def _scale(self, norms: NDArray[np.float64]) -> np.float32:
        if self._codes.factors:
            scale = np.float32(float(norms.max()) / math.sqrt(self._dim) / MAX_FACTOR)
        else:
            squares = float(np.add.accumulate(norms * norms)[-1])  # in the order of the tokens
            scale = np.float32(math.sqrt(squares / len(norms) / self._dim))
        return np.float32(0) if self._nominal_norm(scale) < MIN_NOMINAL_NORM else scale

    def _bound(self, planes: list[NDArray[np.uint8]], measures: _Measures, lengths: NDArray[np.int64]) -> Codes:
        ends = np.cumsum(lengths)
        begins = ends - lengths
        scales = np.array([self._scale(measures.norms[a:b]) for a, b in zip(begins, ends)], dtype=np.float32)
        token_scales = np.repeat(scales.astype(np.float64), lengths)
        factors = None
        if self._codes.factors:
            with np.errstate(divide="ignore", invalid="ignore"):
                exact = np.rint(measures.norms / (token_scales * math.sqrt(self._dim)))
            exact[token_scales == 0] = 0
            factors = np.minimum(exact, MAX_FACTOR).astype(np.uint8)
        nominal = np.array([self._nominal_norm(scale) for scale in scales])
        bounds = []
        for which in range(len(planes)):
            steps = token_scales * _LEVEL_UNITS[which]
            if factors is not None:
                steps = steps * factors
            bounds.append(self._bounds_of(which, steps, measures, begins, nominal))
        return Codes(planes, factors, scales, bounds)

    @staticmethod
    def _bounds_of(
        which: int,
        steps: NDArray[np.float64],
        measures: _Measures,
        begins: NDArray[np.int64],
        nominal: NDArray[np.float64],
    ) -> NDArray[np.float16]:
        squared_norms = measures.norms * measures.norms
        products, squared_lengths = measures.products[which], measures.squared_lengths[which]
        coded = steps > 0
        slopes, lengths, left = np.zeros_like(steps), np.zeros_like(steps), squared_norms.copy()
        slopes[coded] = products[coded] / (steps[coded] * squared_lengths[coded])
        lengths[coded] = steps[coded] * np.sqrt(squared_lengths[coded])
        left[coded] = np.maximum(
            0.0, squared_norms[coded] - products[coded] * products[coded] / squared_lengths[coded]
        )
        left = left + squared_norms * 2.0**-38
        largest = [np.maximum.reduceat(values, begins) for values in (slopes, left, lengths, measures.norms)]
        bounds = np.zeros((len(nominal), 4), dtype=np.float16)
        there = nominal > 0
        numbers = (
            largest[0][there] * _INFLATION,
            np.sqrt(largest[1][there]) / nominal[there] * _INFLATION,
            largest[2][there] / nominal[there] * _INFLATION,
            largest[3][there] / nominal[there] * _INFLATION,
        )
        for index, values in enumerate(numbers):
            bounds[there, index] = _round_up_to_f16(values)
        return bounds
