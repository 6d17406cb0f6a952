"""i8 storage (docs/reference/formats.md): the rotation of token vectors, and one scale per document.

The results have the same bits as those of maxsim-shard: every FP32 sum, difference and product is the one of
kernels/quantize.cc, in the same order. The code works on transposed rows, so that NumPy's sums over columns have long
inner loops.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .values import LINE_BYTES, aligned_empty, widen_f16
from .workers import Workers

MAX_INT8 = 127
MIN_QUANTIZED_MAGNITUDE = np.float32(1e-30)
ROTATION_ROUNDS = 2

# The number of values that are transposed in one step: two arrays of 512 KiB stay in a core's second-level cache.
# Very long rows take more values, because an operation's inner loop runs over rows and needs enough of them.
_BLOCK_VALUES = 1024 * 128
_LEAST_BLOCK_ROWS = 256

# FP32 numbers from 2^23 on are integers. So adding 1.5 x 2^23 rounds a value to the nearest even integer, and leaves
# this integer in the lowest byte, in two's complement.
_ROUNDS = np.float32(12582912.0)

_MASK = (1 << 64) - 1


def rotation_signs(seed: int, rotation_round: int, word: int) -> int:
    """Returns the signs of columns 64 * word to 64 * word + 63 as 64 random bits: SplitMix64 of the seed, the round and
    the word. A set bit means a negative sign."""
    bits = (seed + (rotation_round * 64 + word + 1) * 0x9E3779B97F4A7C15) & _MASK
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
    return bits ^ (bits >> 31)


class Rotation:
    """The fixed orthogonal matrix that belongs to a seed and a dimension. It is applied to transposed rows."""

    def __init__(self, seed: int, dim: int) -> None:
        self.dim = dim
        self.span = 1 << (dim.bit_length() - 1)
        self.factor = np.float32(1.0 / math.sqrt(float(self.span)))
        self._begins = (0, dim - self.span)
        self._signs = [self._round_signs(seed, index) for index in range(ROTATION_ROUNDS)]

    def _round_signs(self, seed: int, index: int) -> NDArray[np.float32]:
        """Returns the factors, 1 or -1, of the columns that one round transforms, [span, 1]."""
        columns = range(self._begins[index], self._begins[index] + self.span)
        turned = [rotation_signs(seed, index, column // 64) >> (column % 64) & 1 for column in columns]
        return np.where(np.array(turned, dtype=bool), np.float32(-1), np.float32(1)).reshape(-1, 1)

    def turn(self, rows: NDArray[np.float32], work: NDArray[np.float32], spare: NDArray[np.float32]) -> None:
        """Writes the rotated `rows` [n, dim], transposed, into the first n columns of `work`, and zeros into the
        remaining columns. `spare` is a scratch array of the same shape."""
        span, count = self.span, len(rows)
        work[:, count:] = 0
        np.multiply(rows[:, :span].T, self._signs[0], out=work[:span, :count])
        if span < self.dim:
            np.copyto(work[span:, :count], rows[:, span:].T)
        self._transform(work[:span], spare[:span])
        second = slice(self._begins[1], self._begins[1] + span)
        np.multiply(work[second], self._signs[1], out=work[second])
        self._transform(work[second], spare[second])

    def _transform(self, columns: NDArray[np.float32], spare: NDArray[np.float32]) -> None:
        """Takes the Hadamard transform of [span, n] in place: sums and differences at distances 1, 2, 4, ..."""
        num_rows = columns.shape[1]
        source, target = columns, spare
        distance = 1
        while distance < self.span:
            pairs = source.reshape(-1, 2, distance, num_rows)
            results = target.reshape(-1, 2, distance, num_rows)
            np.add(pairs[:, 0], pairs[:, 1], out=results[:, 0])
            np.subtract(pairs[:, 0], pairs[:, 1], out=results[:, 1])
            source, target = target, source
            distance *= 2
        np.multiply(source, self.factor, out=columns)


def padded_columns(num_rows: int) -> int:
    """Returns the distance, in values, between the beginnings of transposed rows. Rows begin at cache lines, but not
    all in the same set of a cache."""
    line = LINE_BYTES // 4
    stride = -(-num_rows // line) * line
    return stride if stride % 512 != 0 else stride + line


class _Workspace:
    """The arrays that one thread uses."""

    def __init__(self, rotation: Rotation) -> None:
        self.num_rows = max(_LEAST_BLOCK_ROWS, _BLOCK_VALUES // rotation.dim)
        self._rotation = rotation
        count = rotation.dim * padded_columns(self.num_rows)
        self._arrays = [aligned_empty(count, np.float32) for _ in range(2)]
        self._work = self._arrays[0].reshape(rotation.dim, -1)
        self._rows = aligned_empty(self.num_rows * rotation.dim, np.float32).reshape(self.num_rows, rotation.dim)

    @contextlib.contextmanager
    def unbuffered(self) -> Iterator[None]:
        """Keeps NumPy from copying operands into buffers. By default, NumPy copies them if an inner loop is shorter
        than its buffer."""
        before = np.setbufsize(max(16, self.num_rows // 2 // 16 * 16))
        try:
            yield
        finally:
            np.setbufsize(before)

    def rotate(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Rotates and transposes up to `num_rows` rows [n, dim], which are F32 or F16 and finite. The result [dim, n]
        is valid until the next call."""
        count, dim = rows.shape
        if rows.dtype != np.float32:
            rows = widen_f16(rows, self._rows[:count])
        stride = padded_columns(count)
        self._work, spare = (array[: dim * stride].reshape(dim, stride) for array in self._arrays)
        self._rotation.turn(rows, self._work, spare)
        return self._work[:, :count]

    def round(self, inverses: Any, elements: NDArray[np.int8]) -> None:
        """Writes the quantised elements [n, dim] of the rows of the last `rotate`. `inverses` is one number or an
        array [n]."""
        count = len(elements)
        np.multiply(self._work[:, :count], inverses, out=self._work[:, :count])
        np.add(self._work, _ROUNDS, out=self._work)
        np.copyto(elements, self._work.view(np.int8)[:, : 4 * count : 4].T)


def _largest(rotated: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns each row's largest magnitude. `rotated` is transposed."""
    largest: NDArray[np.float32] = np.maximum(rotated.max(axis=0), -rotated.min(axis=0))
    return largest


def _inverses(largest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the factor (127 / largest magnitude) for each document's values, or 0 if the values are too small to
    quantise."""
    inverses = np.zeros_like(largest)
    np.divide(np.float32(MAX_INT8), largest, out=inverses, where=largest >= MIN_QUANTIZED_MAGNITUDE)
    return inverses


class Quantizer:
    """Rotates and quantises documents, in the threads of `workers`. Only one call may run at a time."""

    def __init__(self, dim: int, seed: int, workers: Workers) -> None:
        self._rotation = Rotation(seed, dim)
        self._workers = workers
        self._local = threading.local()

    def quantize(self, rows: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Returns the elements [rows, dim] and a scale for each document.

        `rows` [rows, dim], in F32 or F16, holds the rows of all documents, one document after another. The values are
        finite. `lengths` has the number of rows of each document, at least 1.
        """
        elements = np.empty(rows.shape, dtype=np.int8)
        scales = np.empty(len(lengths), dtype=np.float32)
        ends = np.cumsum(lengths)
        share = -(-len(rows) // self._workers.num_threads)
        calls = []
        first, begin = 0, 0
        while first < len(lengths):
            last = max(first + 1, int(np.searchsorted(ends, begin + share, side="right")))
            end = int(ends[last - 1])
            part = (rows[begin:end], lengths[first:last], elements[begin:end], scales[first:last])
            calls.append(partial(self._quantize_part, *part))
            first, begin = last, end
        self._workers.run(calls)
        return elements, scales

    def _workspace(self) -> _Workspace:
        workspace: Optional[_Workspace] = getattr(self._local, "workspace", None)
        if workspace is None:
            workspace = self._local.workspace = _Workspace(self._rotation)
        return workspace

    def _quantize_part(
        self,
        rows: NDArray[Any],
        lengths: NDArray[np.int64],
        elements: NDArray[np.int8],
        scales: NDArray[np.float32],
    ) -> None:
        workspace = self._workspace()
        ends = np.cumsum(lengths)
        first, begin = 0, 0
        with workspace.unbuffered():
            while first < len(lengths):
                last = int(np.searchsorted(ends, begin + workspace.num_rows, side="right"))
                if last == first:
                    end = int(ends[first])
                    scales[first] = self._quantize_long(workspace, rows[begin:end], elements[begin:end])
                    last = first + 1
                else:
                    end = int(ends[last - 1])
                    rotated = workspace.rotate(rows[begin:end])
                    starts = ends[first:last] - lengths[first:last] - begin
                    largest = np.maximum.reduceat(_largest(rotated), starts)
                    inverses = _inverses(largest)
                    workspace.round(np.repeat(inverses, lengths[first:last]), elements[begin:end])
                    scales[first:last] = np.where(inverses > 0, largest / np.float32(MAX_INT8), np.float32(0))
                first, begin = last, end

    @staticmethod
    def _quantize_long(workspace: _Workspace, rows: NDArray[Any], elements: NDArray[np.int8]) -> np.float32:
        """Quantises a document of more rows than a block. Rotates it twice, so that it need not hold all rotated
        rows."""
        step = workspace.num_rows
        largest = np.zeros(1, dtype=np.float32)
        for begin in range(0, len(rows), step):
            largest = np.maximum(largest, _largest(workspace.rotate(rows[begin : begin + step])).max())
        inverse = _inverses(largest)
        for begin in range(0, len(rows), step):
            workspace.rotate(rows[begin : begin + step])
            workspace.round(inverse, elements[begin : begin + step])
        return np.float32(largest[0] / np.float32(MAX_INT8)) if inverse[0] > 0 else np.float32(0)
