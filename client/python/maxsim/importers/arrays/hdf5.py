"""The kind `hdf5`, read with h5py: packed vectors with lengths or offsets, padded vectors with a mask, rows of
variable length, or a group with one data set per document."""

# pyright: reportMissingImports=false
from __future__ import annotations

import posixpath
from typing import Any, Iterator, List, Optional, Tuple

import h5py
import numpy as np

from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, open_array_source
from maxsim.importers.readers.opening import check_regular
from maxsim.importers.readers.rows import LazyArrays, block_rows
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options

# The number of ragged rows read in one step. Each row is a separate array.
_RAGGED_ROWS = 256


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the group that --table names, or the root, of the file at `path`. Names of data sets may be paths."""
    check_options("hdf5", options, (*ARRAY_OPTIONS, "table"))
    check_regular(path)  # h5py's own error for a missing file does not name the file
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened as HDF5: {error}") from None
    group = file if options.table is None else file.get(options.table)
    if not isinstance(group, h5py.Group):
        raise SourceError(f"{path}: has no group {options.table!r}; it has {', '.join(list(file)[:20]) or 'nothing'}")
    where = path if options.table is None else f"{path}: {options.table}"
    return open_array_source("hdf5", where, _data_sets(path, file.filename, group, options), options)


def _data_sets(path: str, file_name: str, group: Any, options: ImportOptions) -> LazyArrays:
    """Returns the data sets of a group. Those of inner groups are included only if an option names them by their
    path."""
    named = (options.vectors_column, options.lengths, options.mask, options.id_column, *options.payload_columns)
    names: List[str] = [name for name in group if group.get(name, getclass=True) is h5py.Dataset]
    names += [name for name in named if name and "/" in name and isinstance(group.get(name), h5py.Dataset)]

    def open_rows(name: str) -> _DataSetRows:
        where = f"{path}: {posixpath.join(group.name, name)}"
        data = group[name]
        # A file of unknown origin could name any other file on this machine, whose bytes would then be imported.
        if data.external or data.is_virtual or data.file.filename != file_name:
            raise SourceError(f"{where}: its values lie in another file, which is not read")
        return _DataSetRows(where, data)

    return LazyArrays(names, open_rows)


class _DataSetRows:
    """A data set as a RowArray. Reads whole chunks, so that no chunk is unpacked twice."""

    def __init__(self, where: str, data: Any) -> None:
        self.where = where
        self._data = data
        self.shape: Tuple[int, ...] = data.shape or ()
        self.dtype: np.dtype[Any] = data.dtype

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        rows = rows_at_once or self._best_rows()
        for first in range(0, self.shape[0], rows):
            try:
                yield self._data[first : first + rows]
            except OSError as error:
                raise SourceError(f"{self.where}: rows from {first} on cannot be read: {error}") from None

    def _best_rows(self) -> int:
        if self.dtype.kind == "O":
            return _RAGGED_ROWS
        rows = block_rows(self.shape, self.dtype)
        chunk = self._data.chunks[0] if self._data.chunks else 1
        return max(1, rows // chunk) * chunk

    def read(self) -> np.ndarray:
        array: np.ndarray = self._data[()]
        return array
