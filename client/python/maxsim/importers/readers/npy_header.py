"""Reads the header of a .npy array, in a separate file or inside another one."""

from __future__ import annotations

import math
from typing import IO, Any, NamedTuple, Tuple

import numpy as np

from maxsim.importers.source import SourceError


class NpyHeader(NamedTuple):
    shape: Tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def num_bytes(self) -> int:
        """The size of the elements in bytes. Not valid for objects."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: IO[bytes], where: str) -> NpyHeader:
    """Reads the header, and leaves `file` where the data begin. SourceError, which begins with `where`, if it is not
    valid."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        raise SourceError(f"{where}: is not a .npy array: {error}") from None
    if len(shape) > 32 or not all(isinstance(size, int) and 0 <= size < 2**63 for size in shape):
        raise SourceError(f"{where}: is not a .npy array: its shape has sizes that no array has")
    return NpyHeader(shape, is_fortran, dtype)
