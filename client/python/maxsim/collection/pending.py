"""Collects small documents into batches, which are converted, checked and written as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from .. import vectors as token_arrays
from .batch import Batch, Layout
from .errors import CollectionError
from .ids import format_id
from .limits import MAX_ABS_VALUE, MAX_DOCUMENT_TOKENS, MAX_INT8_SCALE
from .quantize import MAX_INT8, Quantizer
from .values import SOURCE_TYPES, convert, describe_unusable, find_unusable, to_float32

# Large against what a call costs, small against a cache.
_BATCH_BYTES = 4 << 20
_BATCH_DOCUMENTS = 16384
_BATCH_PAYLOAD_BYTES = 4 << 20


def packed_parts(lengths: NDArray[np.int64], row_bytes: int) -> Iterator[tuple[int, int, int, int]]:
    """Cuts documents whose rows stand one after the other into batches: the first document and the one behind the last, and
    the same of their rows."""
    ends = np.cumsum(lengths)
    first = begin = 0
    while first < len(ends):
        last = int(np.searchsorted(ends, begin + max(1, _BATCH_BYTES // row_bytes), side="right"))
        last = min(max(last, first + 1), first + _BATCH_DOCUMENTS)
        end = int(ends[last - 1])
        yield first, last, begin, end
        first, begin = last, end


def token_rows(vectors: Any, dim: int) -> tuple[NDArray[Any], str]:
    """Returns a document's vectors [tokens, dim] and their type: f16, bf16 (as uint16) or f32."""
    if type(vectors) is np.ndarray and vectors.dtype == np.float16:
        rows, data_type = vectors, "f16"
    elif type(vectors) is np.ndarray and vectors.dtype == np.float32:
        rows, data_type = vectors, "f32"
    else:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                converted = token_arrays.token_vectors(vectors)
        except ValueError as error:
            raise CollectionError(str(error)) from None
        rows, data_type = converted.data, converted.data_type
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise CollectionError(f"vectors: shape {list(rows.shape)}, [tokens, {dim}] is expected")
    if not 1 <= rows.shape[0] <= MAX_DOCUMENT_TOKENS:
        raise CollectionError(f"vectors: {rows.shape[0]} tokens, the limits are 1 .. {MAX_DOCUMENT_TOKENS}")
    return rows, data_type


class PendingDocuments:
    """Documents that were added and are not stored yet; their vectors are of one type, and copied."""

    def __init__(self, layout: Layout, quantizer: Union[Quantizer, None], first_document: int) -> None:
        self._layout = layout
        self._quantizer = quantizer
        self._data_type = ""
        self._rows: NDArray[Any] = np.empty((0, layout.dim), dtype=np.float32)
        self.first_document = first_document
        self._is_borrowed = False
        self._clear()

    def _clear(self) -> None:
        if self._is_borrowed:
            self._rows = np.empty((0, self._layout.dim), dtype=np.float32)
        self._is_borrowed = False
        self._num_rows = 0
        self._lengths: list[int] = []
        self.ids: list[Any] = []
        self._payloads: list[bytes] = []
        self._payload_bytes = 0

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def has_payloads(self) -> bool:
        return self._payload_bytes > 0

    def has_room(self, rows: NDArray[Any], data_type: str) -> bool:
        """Returns whether a document may join the others; it always may where there is none."""
        if not self._lengths:
            return True
        return (
            data_type == self._data_type
            and self._num_rows + len(rows) <= len(self._rows)
            and len(self._lengths) < _BATCH_DOCUMENTS
            and self._payload_bytes < _BATCH_PAYLOAD_BYTES
        )

    def add(self, id: Union[bytes, int], rows: NDArray[Any], data_type: str, payload: bytes) -> None:
        if not self._lengths:
            self._begin(rows, data_type)
        count = len(rows)
        self._rows[self._num_rows : self._num_rows + count] = rows
        self._num_rows += count
        self._lengths.append(count)
        self.ids.append(id)
        self._payloads.append(payload)
        self._payload_bytes += len(payload)

    def borrow(
        self, ids: list[Any], rows: NDArray[Any], data_type: str, lengths: list[int], payloads: list[bytes]
    ) -> None:
        """Takes documents whose rows stand one after the other, where there is none. The rows are not copied, and must stay
        as they are until encode()."""
        self._rows, self._data_type, self._is_borrowed = rows, data_type, True
        self._num_rows = len(rows)
        self._lengths, self.ids, self._payloads = lengths, ids, payloads
        self._payload_bytes = sum(map(len, payloads))

    def _begin(self, rows: NDArray[Any], data_type: str) -> None:
        usual = max(1, _BATCH_BYTES // (self._layout.dim * SOURCE_TYPES[data_type].itemsize))
        wanted = max(usual, len(rows))
        # An array for one long document is not kept for the short ones behind it.
        if data_type != self._data_type or not wanted <= len(self._rows) <= max(usual, 2 * wanted):
            self._rows = np.empty((wanted, self._layout.dim), dtype=SOURCE_TYPES[data_type])
            self._data_type = data_type

    def take_ids(self) -> Union[list[bytes], NDArray[np.int64]]:
        """Returns the ids of the documents: of strings a list, of integers an array."""
        return self.ids if self._layout.id_type == "string" else np.array(self.ids, dtype=np.int64)

    def encode(self) -> Batch:
        """Returns the documents as they are stored, and forgets them. The arrays may be overwritten by the next `add`.
        CollectionError names a value that cannot be stored."""
        rows = self._rows[: self._num_rows]
        lengths = np.array(self._lengths, dtype=np.int64)
        scales = None
        if self._quantizer is None:
            tokens = convert(rows, self._data_type, self._layout.storage)
            # What will be stored is checked: narrowing makes infinity of what is too large.
            self._check(tokens, self._layout.storage, rows)
        else:
            self._check(rows, self._data_type, rows)
            wide = to_float32(rows, self._data_type) if self._data_type == "bf16" else rows
            tokens, scales = self._quantizer.quantize(wide, lengths)
            self._check_scales(scales)
        string_ids = self._layout.id_type == "string"
        batch = Batch(
            tokens=tokens,
            lengths=lengths,
            int_ids=None if string_ids else np.array(self.ids, dtype=np.int64),
            id_sizes=np.array([len(id) for id in self.ids], dtype=np.int64) if string_ids else None,
            id_bytes=b"".join(self.ids) if string_ids else b"",
            payload_sizes=np.array([len(payload) for payload in self._payloads], dtype=np.int64),
            payload_bytes=b"".join(self._payloads),
            scales=scales,
        )
        self.first_document += len(batch)
        self._clear()
        return batch

    def _check(self, values: NDArray[Any], data_type: str, rows: NDArray[Any]) -> None:
        """Looks for values that cannot be stored; `rows` are those that were given."""
        found = find_unusable(values, data_type)
        if found is None:
            return
        row, column = divmod(found, self._layout.dim)
        ends = np.cumsum(self._lengths)
        document = int(np.searchsorted(ends, row, side="right"))
        token = row - int(ends[document]) + self._lengths[document]
        value = float(to_float32(rows[row, column : column + 1], self._data_type)[0])
        problem = describe_unusable(value, self._layout.storage)
        raise CollectionError(f"{self._where(document)}: vectors: token {token}, column {column}: {problem}")

    def _check_scales(self, scales: NDArray[np.float32]) -> None:
        too_large = np.flatnonzero(~(scales <= MAX_INT8_SCALE))
        if len(too_large) > 0:
            document = int(too_large[0])
            largest = float(scales[document] * np.float32(MAX_INT8))
            raise CollectionError(
                f"{self._where(document)}: vectors: {largest:g} after the rotation is beyond the limit of "
                f"{MAX_ABS_VALUE:g}"
            )

    def _where(self, index: int) -> str:
        return f"document {self.first_document + index}, id {format_id(self.ids[index])}"
