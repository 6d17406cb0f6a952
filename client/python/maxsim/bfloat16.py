"""bfloat16, which NumPy has no type for: its bits are held as uint16, the upper halves of float32 ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def widen_bfloat16(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns the float32 values, exactly, of bits of any byte order; the shape stays."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
