"""Token vectors as a shard stores them: conversions, which round as maxsim-shard does, and the search for values that no
token may have."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .limits import MAX_ABS_VALUE, MAX_F16

# BF16 has no type in NumPy; its values are held as the upper halves of F32 ones.
SOURCE_TYPES: dict[str, np.dtype[Any]] = {"f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16), "f32": np.dtype(np.float32)}

_MAX_F32_BITS = int(np.float32(MAX_ABS_VALUE).view(np.uint32))


def to_float32(values: NDArray[Any], data_type: str) -> NDArray[Any]:
    """Widens values exactly."""
    if data_type == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32, copy=False)


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
    """Returns values of type f16, bf16 or f32 as another of these; narrowing rounds to nearest, ties to even."""
    if data_type == storage:
        return values
    wide = to_float32(values, data_type)
    if storage == "f32":
        return wide
    if storage == "bf16":
        return _to_bf16(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        return wide.astype(np.float16)


def _magnitude_limit(data_type: str) -> tuple[Any, int, int]:
    """Returns the unsigned type of a value's bits, the mask of its magnitude, and the largest magnitude's bits."""
    if data_type == "f32":
        return np.uint32, 0x7FFFFFFF, _MAX_F32_BITS
    if data_type == "bf16":
        return np.uint16, 0x7FFF, _MAX_F32_BITS >> 16
    return np.uint16, 0x7FFF, 0x7BFF  # the largest finite F16 is below the limit


def find_unusable(values: NDArray[Any], data_type: str) -> Optional[int]:
    """Returns the flat index of the first value that is not finite or beyond the limit of magnitudes."""
    kind, mask, limit = _magnitude_limit(data_type)
    # Positive numbers are ordered as their bits are, infinities and NaNs last.
    magnitudes = values.view(kind) & kind(mask)
    if magnitudes.size == 0 or int(magnitudes.max()) <= limit:
        return None
    return int(np.argmax(magnitudes.reshape(-1) > kind(limit)))


def describe_unusable(value: float, storage: str) -> str:
    """Says why a value, as it was given, cannot be stored."""
    if not math.isfinite(value):
        return f"{value:g} is not finite"
    if abs(value) <= MAX_ABS_VALUE and storage == "f16":
        return f"{value:g} is too large for f16 (largest: {MAX_F16})"
    rounded = f" when rounded to {storage}" if abs(value) <= MAX_ABS_VALUE else ""
    return f"{value:g} is beyond the limit of {MAX_ABS_VALUE:g}{rounded}"
