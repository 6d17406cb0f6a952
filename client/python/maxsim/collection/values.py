"""Converts token vectors to stored values, with the same rounding as maxsim-shard, and finds values that no token may
have."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..bfloat16 import widen_bfloat16
from .limits import MAX_ABS_VALUE, MAX_F16
from .workers import Workers

# The size of a cache line. A vector instruction takes twice as long if it crosses the end of a line.
LINE_BYTES = 64

# NumPy has no BF16. Its values are held as the upper halves of F32 values.
SOURCE_TYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
}

# The number of values per step. They fit into a core's cache, and take long compared with a NumPy call.
_BLOCK_VALUES = 1 << 16

_MAX_F32_BITS = int(np.float32(MAX_ABS_VALUE).view(np.uint32))


def aligned_empty(count: int, dtype: Any) -> NDArray[Any]:
    """Returns an uninitialised array of `count` values that begins at a cache line."""
    dtype = np.dtype(dtype)
    room = np.empty(count * dtype.itemsize + LINE_BYTES, dtype=np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    return room[begin : begin + count * dtype.itemsize].view(dtype)


def to_float32(values: NDArray[Any], data_type: str) -> NDArray[Any]:
    """Widens values exactly."""
    if data_type == "bf16":
        return widen_bfloat16(values)
    return values.astype(np.float32, copy=False)


def widen_f16(values: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Writes finite F16 values into `target`, an F32 array of their shape, and returns it. Takes half the time of
    NumPy's conversion, which is not vectorised on every machine."""
    bits = target.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    np.left_shift(bits, 13, out=bits)
    # Keeps the sign, 5 bits of exponent and 10 of fraction.
    np.bitwise_and(bits, np.int32(-0x70002000), out=bits)
    np.multiply(target, np.float32(2.0**112), out=target)  # The exponents' biases differ by 112.
    return target


def _to_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """Rounds F32 values to the nearest BF16 ones, ties to even. A NaN stays a NaN."""
    bits = values.view(np.uint32)
    rounded = bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    narrowed = (rounded >> np.uint32(16)).astype(np.uint16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if is_nan.any():
        narrowed[is_nan] = 0x7FC0
    return narrowed


def _narrow(values: NDArray[Any], storage: str) -> NDArray[Any]:
    if storage == "bf16":
        return _to_bf16(values)
    if storage == "f16":
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(np.float16)
    return values


def convert(values: NDArray[Any], data_type: str, storage: str, workers: Workers) -> NDArray[Any]:
    """Converts contiguous rows from one of the types f16, bf16 and f32 to another. Narrowing rounds to nearest, ties
    to even."""
    if data_type == storage:
        return values
    converted = np.empty(values.shape, dtype=SOURCE_TYPES[storage])

    def convert_part(begin: int, end: int) -> None:
        wide = to_float32(values[begin:end], data_type)
        converted[begin:end] = _narrow(wide, storage)

    step = -(-len(values) // workers.num_threads)
    workers.run([partial(convert_part, begin, begin + step) for begin in range(0, len(values), step)])
    return converted


def _magnitude_limit(data_type: str) -> tuple[Any, int, int]:
    """Returns the unsigned type of a value's bits, the mask that keeps its magnitude, and the bits of the largest
    magnitude."""
    if data_type == "f32":
        return np.uint32, 0x7FFFFFFF, _MAX_F32_BITS
    if data_type == "bf16":
        # The limit rounded to BF16 is slightly above the limit. It is allowed, because values within the limit may
        # round to it.
        return np.uint16, 0x7FFF, (_MAX_F32_BITS + 0x8000) >> 16
    return np.uint16, 0x7FFF, 0x7BFF  # The largest finite F16 is below the limit.


def find_unusable(values: NDArray[Any], data_type: str) -> Optional[int]:
    """Returns the flat index of the first value that is not finite or exceeds the largest magnitude. None if all are
    valid. `values` must be contiguous."""
    kind, mask, limit = _magnitude_limit(data_type)
    bits = values.reshape(-1).view(kind)
    magnitudes = aligned_empty(min(_BLOCK_VALUES, len(bits)), kind)
    for begin in range(0, len(bits), _BLOCK_VALUES):
        block = bits[begin : begin + _BLOCK_VALUES]
        # For values without sign, the order of the numbers is the order of their bits, with infinities and NaNs last.
        found = np.bitwise_and(block, kind(mask), out=magnitudes[: len(block)])
        if int(found.max()) > limit:
            return begin + int(np.argmax(found > kind(limit)))
    return None


def describe_unusable(value: float, storage: str) -> str:
    """Says why a value cannot be stored. `value` is as the caller gave it."""
    if not math.isfinite(value):
        return f"{value:g} is not finite"
    if abs(value) <= MAX_ABS_VALUE and storage == "f16":
        return f"{value:g} is too large for f16 (largest: {MAX_F16})"
    return f"{value:g} is beyond the limit of {MAX_ABS_VALUE:g}"
