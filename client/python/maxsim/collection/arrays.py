"""Arrays to work in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes of a cache line. Vector instructions take twice as long if they cross the end of a line.
LINE_BYTES = 64


def aligned_empty(count: int, dtype: Any) -> NDArray[Any]:
    """Returns an array of `count` values, with any content, which begins at a cache line."""
    dtype = np.dtype(dtype)
    room = np.empty(count * dtype.itemsize + LINE_BYTES, dtype=np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    return room[begin : begin + count * dtype.itemsize].view(dtype)
