"""The kind `zarr`, read with zarr: a store of version 2 or 3 with packed vectors and lengths or offsets, padded
vectors and a mask, or one array per document."""

# pyright: reportMissingImports=false
from __future__ import annotations

import os
from typing import Any, Iterator, Optional, Tuple

import numpy as np
import zarr

from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, open_array_source
from maxsim.importers.readers.opening import check_folder, check_regular
from maxsim.importers.readers.rows import LazyArrays, block_rows
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the group that --table names, or the root, of the store at `path`: a folder, a .zip file or an address."""
    check_options("zarr", options, (*ARRAY_OPTIONS, "table"))
    if "://" not in path and not os.path.exists(path):
        raise SourceError(f"{path}: no such file or folder")
    if "://" not in path:
        check_folder(path) if os.path.isdir(path) else check_regular(path)
    try:
        node = zarr.open(zarr.storage.ZipStore(path, mode="r") if os.path.isfile(path) else path, mode="r")
        if options.table is not None:
            node = node[options.table]
    except Exception as error:  # zarr's errors have no common base class, and its stores raise their own
        raise SourceError(f"{path}: cannot be opened as Zarr: {error or type(error).__name__}") from None
    where = path if options.table is None else f"{path}: {options.table}"
    if isinstance(node, zarr.Array):
        raise SourceError(f"{where}: is an array without lengths beside it; name the group that has both")
    arrays = LazyArrays(sorted(node.array_keys()), lambda name: _ArrayRows(f"{where}: {name}", node[name]))
    return open_array_source("zarr", where, arrays, options)


class _ArrayRows:
    """An array as a RowArray. Reads whole chunks (or shards of chunks), so that none is unpacked twice."""

    def __init__(self, where: str, array: Any) -> None:
        self.where = where
        self._array = array
        self.shape: Tuple[int, ...] = tuple(array.shape)
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        rows = rows_at_once or self._best_rows()
        for first in range(0, self.shape[0], rows):
            try:
                block: np.ndarray = np.asarray(self._array[first : first + rows])
            except Exception as error:  # codecs and stores raise their own errors
                raise SourceError(f"{self.where}: rows from {first} on cannot be read: {error}") from None
            yield block

    def _best_rows(self) -> int:
        unit = int((getattr(self._array, "shards", None) or self._array.chunks)[0])
        return max(1, block_rows(self.shape, self.dtype) // unit) * unit

    def read(self) -> np.ndarray:
        return np.asarray(self._array[...])
