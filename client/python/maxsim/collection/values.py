"""Token vectors as a shard stores them: conversions, which round as maxsim-shard does, and the search for values that no
token may have."""

from __future__ import annotations

import math
import threading
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .limits import MAX_ABS_VALUE, MAX_F16

# BF16 has no type in NumPy; its values are held as the upper halves of F32 ones.
SOURCE_TYPES: dict[str, np.dtype[Any]] = {"f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16), "f32": np.dtype(np.float32)}

# Values that are worked on at a time: few enough for a core's cache, and many against what a call costs.
_BLOCK_VALUES = 1 << 16

_MAX_F32_BITS = int(np.float32(MAX_ABS_VALUE).view(np.uint32))


def to_float32(values: NDArray[Any], data_type: str) -> NDArray[Any]:
    """Widens values exactly."""
    if data_type == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32, copy=False)


def widen_f16(values: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Writes finite F16 values into `target`, F32 of their shape, and returns it. It takes a third of the time of NumPy's
    conversion, which is not vectorised everywhere."""
    bits = target.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, np.int32(-0x70002000), out=bits)  # the sign, 5 bits of exponent and 10 of fraction
    np.multiply(target, np.float32(2.0**112), out=target)  # the difference of the exponents' biases
    return target


class _F16Narrower:
    """Rounds F32 values to F16, to nearest, ties to even, in a third of the time of NumPy's conversion."""

    # Bits of the magnitudes that become normal numbers of F16: from 2^-14 on, and less than what rounds to 2^16.
    _LEAST = 0x38800000
    _END = 0x477FF000

    def __init__(self) -> None:
        self._sum = np.empty(_BLOCK_VALUES, dtype=np.uint32)
        self._other = np.empty(_BLOCK_VALUES, dtype=np.uint32)

    def narrow(self, values: NDArray[Any]) -> NDArray[Any]:
        narrowed = np.empty(values.shape, dtype=np.float16)
        source, target = values.reshape(-1), narrowed.reshape(-1)
        for begin in range(0, len(source), _BLOCK_VALUES):
            block = slice(begin, begin + _BLOCK_VALUES)
            self._narrow_block(source[block], target[block])
        return narrowed

    def _narrow_block(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        u32 = np.uint32
        bits = source.view(u32)
        rounded, other = self._sum[: len(bits)], self._other[: len(bits)]
        # Half of the last place, less one unless the place is odd, is added; then the exponent's bias changes by 112.
        np.right_shift(bits, u32(13), out=rounded)
        np.bitwise_and(rounded, u32(1), out=rounded)
        np.add(rounded, bits, out=rounded)
        np.subtract(rounded, u32((112 << 23) - 0xFFF), out=rounded)
        np.right_shift(rounded, u32(13), out=rounded)
        np.bitwise_and(rounded, u32(0x7FFF), out=rounded)
        np.right_shift(bits, u32(16), out=other)
        np.bitwise_and(other, u32(0x8000), out=other)
        np.bitwise_or(rounded, other, out=rounded)
        np.copyto(target.view(np.uint16), rounded, casting="unsafe")
        # Numbers that are not normal in F16 are rounded one by one: zeros and tiny ones, and what becomes infinite.
        np.bitwise_and(bits, u32(0x7FFFFFFF), out=other)
        np.subtract(other, u32(self._LEAST), out=other)
        special = np.flatnonzero(other >= u32(self._END - self._LEAST))
        if len(special) > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                target[special] = source[special]


_narrower = threading.local()


def _to_f16(values: NDArray[Any]) -> NDArray[Any]:
    narrower: Optional[_F16Narrower] = getattr(_narrower, "value", None)
    if narrower is None:
        narrower = _narrower.value = _F16Narrower()
    return narrower.narrow(values)


def _to_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """Rounds F32 values to nearest, ties to even; a NaN stays one."""
    bits = values.view(np.uint32)
    rounded = bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    narrowed = (rounded >> np.uint32(16)).astype(np.uint16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if is_nan.any():
        narrowed[is_nan] = 0x7FC0
    return narrowed


def convert(values: NDArray[Any], data_type: str, storage: str) -> NDArray[Any]:
    """Returns values of type f16, bf16 or f32, contiguous, as another of these; narrowing rounds to nearest, ties to
    even."""
    if data_type == storage:
        return values
    wide = to_float32(values, data_type)
    if storage == "f32":
        return wide
    return _to_bf16(wide) if storage == "bf16" else _to_f16(wide)


def _magnitude_limit(data_type: str) -> tuple[Any, int, int]:
    """Returns the unsigned type of a value's bits, the mask of its magnitude, and the largest magnitude's bits."""
    if data_type == "f32":
        return np.uint32, 0x7FFFFFFF, _MAX_F32_BITS
    if data_type == "bf16":
        return np.uint16, 0x7FFF, _MAX_F32_BITS >> 16
    return np.uint16, 0x7FFF, 0x7BFF  # the largest finite F16 is below the limit


def find_unusable(values: NDArray[Any], data_type: str) -> Optional[int]:
    """Returns the flat index of the first value that is not finite or beyond the limit of magnitudes. `values` are
    contiguous."""
    kind, mask, limit = _magnitude_limit(data_type)
    bits = values.reshape(-1).view(kind)
    magnitudes = np.empty(min(_BLOCK_VALUES, len(bits)), dtype=kind)
    for begin in range(0, len(bits), _BLOCK_VALUES):
        block = bits[begin : begin + _BLOCK_VALUES]
        # Positive numbers are ordered as their bits are, infinities and NaNs last.
        found = np.bitwise_and(block, kind(mask), out=magnitudes[: len(block)])
        if int(found.max()) > limit:
            return begin + int(np.argmax(found > kind(limit)))
    return None


def describe_unusable(value: float, storage: str) -> str:
    """Says why a value, as it was given, cannot be stored."""
    if not math.isfinite(value):
        return f"{value:g} is not finite"
    if abs(value) <= MAX_ABS_VALUE and storage == "f16":
        return f"{value:g} is too large for f16 (largest: {MAX_F16})"
    rounded = f" when rounded to {storage}" if abs(value) <= MAX_ABS_VALUE else ""
    return f"{value:g} is beyond the limit of {MAX_ABS_VALUE:g}{rounded}"
