"""bfloat16, for which NumPy has no type: arrays hold its bits as uint16, which are the upper halves of float32
values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def widen_bfloat16(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns the exact float32 values of bits in any byte order, in the same shape."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
