"""Reads arrays on disk from the front in blocks of rows, and divides packed rows into documents."""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np

from maxsim.collection.limits import MAX_DIM
from maxsim.importers.source import SourceError

# Bytes that are read in one step. With 8 MiB, reading is as fast as the disk, and an import needs some tens of MB of
# memory.
BLOCK_BYTES = 8 << 20


class RowArray(Protocol):
    """An array [rows, ...] in a file or of a library.

    `where` names it in errors. `shape` and `dtype` are NumPy's; dtype object means strings or ragged rows. blocks()
    streams consecutive rows, `rows_at_once` at a time or as many as suit the reader. read() returns all rows."""

    where: str
    shape: Tuple[int, ...]
    dtype: np.dtype[Any]

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]: ...

    def read(self) -> np.ndarray: ...


class LazyArrays(Mapping[str, RowArray]):
    """Arrays by name. Each is opened when it is requested, because there may be one per document."""

    def __init__(self, names: Sequence[str], open_array: Callable[[str], RowArray]) -> None:
        self._names = names
        self._known = frozenset(names)
        self._open_array = open_array

    def __getitem__(self, name: str) -> RowArray:
        if name not in self._known:
            raise KeyError(name)
        return self._open_array(name)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def block_rows(shape: Sequence[int], dtype: np.dtype[Any], block_bytes: int = BLOCK_BYTES) -> int:
    """Returns the number of rows of such an array in a block."""
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    return max(1, block_bytes // max(1, row_bytes))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Returns whether a type is float16, float32 or float64, in either byte order."""
    return dtype.kind == "f" and dtype.itemsize <= 8


def as_vectors(values: np.ndarray) -> np.ndarray:
    """Converts floating-point values to float16 or float32 in the machine's byte order. Does not copy if nothing
    changes. float64 is rounded to float32; values that are too large become infinite, and the writer refuses them."""
    if values.dtype.itemsize == 8:
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def cut_documents(blocks: Iterator[np.ndarray], lengths: np.ndarray) -> Iterator[Tuple[np.ndarray, int, int]]:
    """Divides packed rows into whole documents. Document n has `lengths[n]` rows. Yields the rows of some documents,
    the number of the first document, and the number after the last one. The rows are a view of a block, unless a
    document began in an earlier block."""
    ends = np.cumsum(lengths)
    first = begin = 0
    parts: List[np.ndarray] = []
    num_rows = 0
    for block in blocks:
        parts.append(block)
        num_rows += len(block)
        last = int(np.searchsorted(ends, begin + num_rows, side="right"))
        if last == first:
            continue
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        end = int(ends[last - 1])
        yield rows[: end - begin], first, last
        parts = [rows[end - begin :]] if end - begin < len(rows) else []
        num_rows -= end - begin
        first, begin = last, end
    if first < len(lengths):
        # Without rows there is no block.
        yield np.empty((0, 0), np.float32), first, len(lengths)


def lengths_of(
    counts: RowArray, num_rows: int, rows_where: str, count_ids: Callable[[], Optional[int]] = lambda: None
) -> np.ndarray:
    """Returns the number of tokens of each document, int64 [N]. `counts` holds these numbers, or the N + 1 offsets of
    the documents in `num_rows` packed rows.

    If the values can be either, such as [0, num_rows], the array's name decides, and otherwise the number of ids
    (count_ids returns it, or None if there are no ids). SourceError if the values are neither, or nothing decides."""
    if len(counts.shape) != 1 or counts.dtype.kind not in "iu":
        raise SourceError(
            f"{counts.where}: lengths must be integers [N], but they are {counts.dtype} {list(counts.shape)}"
        )
    values = counts.read()
    if values.dtype.kind == "u" and len(values) and int(values.max()) > np.iinfo(np.int64).max:
        raise SourceError(f"{counts.where}: {int(values.max())} is beyond 2^63 - 1")
    values = values.astype(np.int64)
    negative = np.flatnonzero(values < 0)
    if len(negative):
        row = int(negative[0])
        raise SourceError(f"{counts.where}: row {row} is {values[row]}; must be 0 or more")
    if len(values) and int(values.max()) > num_rows:
        row = int(values.argmax())
        raise SourceError(f"{counts.where}: row {row} is {values[row]}, but {rows_where} has {num_rows} rows")
    # A sum in int64 could overflow, and by chance give num_rows.
    total = int(values.sum()) if len(values) * num_rows < 2**63 else sum(values.tolist())
    may_be_offsets = bool(len(values) and values[0] == 0 and values[-1] == num_rows and np.all(np.diff(values) >= 0))
    if may_be_offsets and (total != num_rows or _are_offsets(counts.where, len(values), count_ids)):
        return np.diff(values)
    if total != num_rows:
        raise SourceError(
            f"{counts.where}: {len(values)} lengths sum to {total}, {rows_where} has {num_rows} rows"
            + (f" (and as offsets they must go from 0 to {num_rows})" if "offset" in counts.where else "")
        )
    return values


def _are_offsets(where: str, num_values: int, count_ids: Callable[[], Optional[int]]) -> bool:
    """Decides whether the values of the array `where` are offsets or lengths, if they can be both."""
    name = re.split(r"[/\\]|: ", where)[-1].lower()
    says_offsets, says_lengths = "offset" in name, "len" in name or "num_tokens" in name
    if says_offsets != says_lengths:
        return says_offsets
    num_ids = count_ids()
    if num_ids in (num_values, num_values - 1):
        return num_ids == num_values - 1
    raise SourceError(
        f"{where}: its {num_values} values can be lengths of {num_values} documents or offsets of {num_values - 1}: "
        "name the array or file lengths or offsets"
    )


class ScaledRows:
    """Packed int8 token vectors [T, dim] times their scales: one for each token ([T] or [T, 1]), each document ([N] or
    [N, 1]; `lengths` are their tokens) or for all ([1])."""

    def __init__(self, elements: RowArray, scales: RowArray, lengths: np.ndarray) -> None:
        self.where = elements.where
        self.shape = elements.shape
        self.dtype = np.dtype(np.float32)
        self._elements = elements
        self._values = scales.read().reshape(-1).astype(np.float32)
        self._ends = np.cumsum(lengths)
        counts = (elements.shape[0], len(lengths), 1)
        if not is_float(scales.dtype) or scales.shape[1:] not in ((), (1,)) or len(self._values) not in counts:
            raise SourceError(
                f"{scales.where}: is {scales.dtype} {list(scales.shape)}; must be floating-point: "
                f"[{counts[0]}] for tokens, [{counts[1]}] for documents or [1]"
            )

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        first = 0
        for block in self._elements.blocks(rows_at_once):
            yield block * self._scales(first, first + len(block))[:, None]
            first += len(block)

    def read(self) -> np.ndarray:
        values: np.ndarray = self._elements.read() * self._scales(0, self.shape[0])[:, None]
        return values

    def _scales(self, first: int, end: int) -> np.ndarray:
        """The scales of tokens first to end."""
        if len(self._values) == self.shape[0]:
            return self._values[first:end]
        if len(self._values) == 1:
            return np.broadcast_to(self._values, (end - first,))
        return self._values[np.searchsorted(self._ends, np.arange(first, end), side="right")]


def check_columns(where: str, dim: int, wanted: Optional[int] = None) -> int:
    """Returns `dim` if it is in 1 .. MAX_DIM and equals `wanted`, the user's number of columns, if there is one."""
    if not 1 <= dim <= MAX_DIM:
        raise SourceError(f"{where}: {dim} columns; must be 1 to {MAX_DIM}")
    if wanted is not None and wanted != dim:
        raise SourceError(f"{where}: {dim} columns, but --dim says {wanted}")
    return dim
