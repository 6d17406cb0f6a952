"""Reads token vectors from an Arrow column of nested lists, if possible without copying the values."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxsim.importers.readers.rows import as_vectors, check_columns
from maxsim.importers.source import SourceError

ArrowType = Any
ArrowArray = Any


def storage_type(arrow_type: ArrowType) -> ArrowType:
    """Returns the storage type of an extension type (a tensor of Arrow, an array of datasets), or else `arrow_type`
    itself."""
    return storage_type(arrow_type.storage_type) if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type


def is_list(arrow_type: ArrowType) -> bool:
    return bool(
        pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type)
    )


def is_float(arrow_type: ArrowType) -> bool:
    return bool(pa.types.is_floating(arrow_type))


def is_vectors(arrow_type: ArrowType) -> bool:
    """Returns whether the type is a list of lists of floating-point values, whatever kinds of lists."""
    outer = storage_type(arrow_type)
    if not is_list(outer):
        return False
    inner = storage_type(outer.value_type)
    return is_list(inner) and is_float(storage_type(inner.value_type))


def is_flattened(arrow_type: ArrowType) -> bool:
    """Returns whether the type is a list of floating-point values."""
    outer = storage_type(arrow_type)
    return is_list(outer) and is_float(storage_type(outer.value_type))


def known_columns(arrow_type: ArrowType) -> Optional[int]:
    """Returns the number of columns of a token vector if the type fixes it, or else None."""
    if isinstance(arrow_type, pa.FixedShapeTensorType) and len(arrow_type.shape) == 2:
        return int(arrow_type.shape[1])
    outer = storage_type(arrow_type)
    if not is_vectors(outer):
        return None
    inner = storage_type(outer.value_type)
    return int(inner.list_size) if pa.types.is_fixed_size_list(inner) else None


class _Lists:
    """The parts of a list array: row n is values[starts[n]:ends[n]]. A null row is empty."""

    def __init__(self, array: ArrowArray) -> None:
        if pa.types.is_fixed_size_list(array.type):
            size = array.type.list_size
            offsets = (np.arange(len(array) + 1, dtype=np.int64) + array.offset) * size
        else:
            offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        first, last = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
        self.values = _storage(array.values).slice(first, last - first)
        offsets = offsets - first
        self.starts: np.ndarray = offsets[:-1]
        self.ends: np.ndarray = offsets[1:]
        self.has_nulls = array.null_count > 0
        if self.has_nulls:
            is_null = array.is_null().to_numpy(zero_copy_only=False)
            self.ends = np.where(is_null, self.starts, self.ends)


def _storage(array: ArrowArray) -> ArrowArray:
    return _storage(array.storage) if isinstance(array, pa.ExtensionArray) else array


class VectorColumn:
    """Reads token vectors from batches of one column.

    where names the column in errors. arrow_type is its type. dim is the number of columns that the user gives: a
    column of flattened lists needs it, for others it is checked. Raises SourceError if the type cannot hold token
    vectors."""

    def __init__(self, where: str, arrow_type: ArrowType, dim: Optional[int]) -> None:
        self._where = where
        permutation = getattr(arrow_type, "permutation", None)
        if permutation is not None and list(permutation) != sorted(permutation):
            raise SourceError(
                f"{where}: is a tensor with its dimensions in the order {list(permutation)}; must be [tokens, dim]"
            )
        known = known_columns(arrow_type)
        self._is_flattened = not is_vectors(arrow_type) and is_flattened(arrow_type)
        if not self._is_flattened and not is_vectors(arrow_type):
            raise SourceError(
                f"{where}: is {arrow_type}; token vectors are a list of lists of float16, float32 or float64, "
                "or with --dim a list"
            )
        if self._is_flattened and dim is None and known is None:
            raise SourceError(
                f"{where}: is {arrow_type}, one list a row; "
                "give --dim where a row holds the tokens * dim values of a document"
            )
        if known is not None:
            check_columns(where, known, dim)
        # None until the first token vector has been seen.
        self.dim: Optional[int] = known if known is not None else dim
        if self.dim is not None:
            check_columns(where, self.dim)

    def packed(self, array: ArrowArray, first_row: int) -> Tuple[np.ndarray, np.ndarray]:
        """Returns the token vectors of all rows of `array`, one row after another, and the number of tokens of each
        row. A null row has no tokens. `first_row` is the number of the first row in the source. The vectors are a
        view of Arrow's memory, or a copy if they are float64."""
        lists = _Lists(_storage(array))
        if self._is_flattened:
            values, starts, ends = self._flattened(lists, first_row)
        else:
            values, starts, ends = self._nested(lists, first_row)
        lengths = ends - starts
        if int(lengths.sum()) != len(values) or not np.array_equal(starts[1:], ends[:-1]):
            # Null rows may have values, which lie between the documents' values.
            values = np.concatenate([values[:0], *(values[start:end] for start, end in zip(starts, ends))])
        return values, lengths

    def _nested(self, lists: _Lists, first_row: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        tokens = lists.values
        if tokens.null_count:
            self._check_tokens(lists, first_row)
        inner = _Lists(tokens)
        sizes = inner.ends - inner.starts
        if self.dim is None:
            used = np.flatnonzero(lists.ends > lists.starts)
            if not len(used):
                return np.empty((0, 0), np.float32), lists.starts * 0, lists.ends * 0
            self.dim = check_columns(self._where, int(sizes[lists.starts[used[0]]]))
        wrong = np.flatnonzero(sizes != self.dim)
        if len(wrong) and not lists.has_nulls:
            self._refuse_size(lists, int(wrong[0]), int(sizes[wrong[0]]), first_row)
        if len(wrong):
            return self._gathered(lists, inner, sizes, first_row)
        values = self._values(inner.values, inner.starts, lists, first_row)
        return values.reshape(-1, self.dim), lists.starts, lists.ends

    def _gathered(
        self, lists: _Lists, inner: _Lists, sizes: np.ndarray, first_row: int
    ) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Joins the tokens of documents. Tokens of null rows belong to no document, and may have any size."""
        is_used = np.zeros(len(sizes) + 1, np.int64)
        np.add.at(is_used, lists.starts, 1)
        np.add.at(is_used, lists.ends, -1)
        used = np.flatnonzero(np.cumsum(is_used[:-1]) > 0)
        wrong = used[sizes[used] != self.dim]
        if len(wrong):
            self._refuse_size(lists, int(wrong[0]), int(sizes[wrong[0]]), first_row)
        counts = lists.ends - lists.starts
        ends = np.cumsum(counts)
        assert self.dim is not None
        rows = (inner.starts[used, None] + np.arange(self.dim)).reshape(-1)
        values = inner.values.take(pa.array(rows))
        kept = self._values(values, np.arange(len(used)) * self.dim, lists, first_row)
        return kept.reshape(-1, self.dim), ends - counts, ends

    def _flattened(self, lists: _Lists, first_row: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert self.dim is not None
        sizes = lists.ends - lists.starts
        wrong = np.flatnonzero(sizes % self.dim)
        if len(wrong):
            row = int(wrong[0])
            raise SourceError(
                f"{self._where}: row {first_row + row} has {sizes[row]} values, not a multiple of dim {self.dim}"
            )
        if len(lists.values) % self.dim or np.any(lists.starts % self.dim):
            # Null rows may have values, which lie between the documents' values.
            kept = np.concatenate(
                [np.arange(start, end) for start, end in zip(lists.starts, lists.ends)] or [np.empty(0, np.int64)]
            )
            values = lists.values.take(pa.array(kept.astype(np.int64)))
            ends = np.cumsum(sizes)
            starts = ends - sizes
        else:
            values, starts, ends = lists.values, lists.starts, lists.ends
        array = self._values(values, starts, None, first_row)
        return array.reshape(-1, self.dim), starts // self.dim, ends // self.dim

    def _values(self, values: ArrowArray, starts: np.ndarray, lists: Optional[_Lists], first_row: int) -> np.ndarray:
        """Returns `values` as floating-point numbers. SourceError: a value is null. Only this error needs `starts`,
        where tokens begin in `values`, or, without `lists`, where documents begin."""
        values = _storage(values)
        if values.null_count:
            at = int(pc.index(values.is_null(), True).as_py())
            entry = int(np.searchsorted(starts, at, side="right")) - 1
            row = entry if lists is None else self._row_of(lists, entry)
            raise SourceError(f"{self._where}: row {first_row + row} has a value that is null")
        array = values.to_numpy(zero_copy_only=True)
        return as_vectors(array)

    def _check_tokens(self, lists: _Lists, first_row: int) -> None:
        """Refuses a null token vector, unless its row is null too."""
        for token in np.flatnonzero(lists.values.is_null().to_numpy(zero_copy_only=False)).tolist():
            row = self._row_of(lists, token)
            if lists.starts[row] <= token < lists.ends[row]:
                raise SourceError(
                    f"{self._where}: row {first_row + row} has a token vector that is null, "
                    f"token {token - lists.starts[row]}"
                )

    def _refuse_size(self, lists: _Lists, token: int, size: int, first_row: int) -> None:
        row = self._row_of(lists, token)
        raise SourceError(
            f"{self._where}: row {first_row + row} has a token vector of {size} columns, "
            f"token {token - int(lists.starts[row])}; the others have {self.dim}"
        )

    @staticmethod
    def _row_of(lists: _Lists, token: int) -> int:
        """Returns the row whose list contains the value number `token`."""
        return int(np.searchsorted(lists.starts, token, side="right")) - 1
