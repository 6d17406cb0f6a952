"""Collects small documents into batches. Each batch is converted, checked and written as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .. import vectors as token_arrays
from .batch import Batch, Layout
from .codebook import Codebook
from .errors import CollectionError, quote_id
from .fields import FieldReader
from .ids import encode_id, format_id
from .limits import MAX_ABS_VALUE, MAX_DOCUMENT_TOKENS, MAX_INT8_SCALE
from .loss import QuantizationLoss, lossy_rows
from .payloads import encode_payload
from .quantize import MAX_INT8, Quantizer
from .values import SOURCE_TYPES, aligned_empty, convert, describe_unusable, find_unusable, to_float32
from .workers import Workers

# The limits of a batch: large enough that the costs per call do not matter, and small enough for a core's cache.
_BATCH_BYTES = 4 << 20
_BATCH_DOCUMENTS = 16384
_BATCH_PAYLOAD_BYTES = 4 << 20


def packed_parts(lengths: NDArray[np.int64], row_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Splits documents whose rows follow one another into parts of some MiB. Yields for each part its range of
    documents and its range of rows."""
    ends = np.cumsum(lengths)
    first = begin = 0
    while first < len(ends):
        last = int(np.searchsorted(ends, begin + max(1, _BATCH_BYTES // row_bytes), side="right"))
        last = min(max(last, first + 1), first + _BATCH_DOCUMENTS)
        end = int(ends[last - 1])
        yield slice(first, last), slice(begin, end)
        first, begin = last, end


def packed_rows(
    vectors: Any, lengths: Any, dim: int, codebook: Optional[Codebook], num_documents: int, num_payloads: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Returns vectors [sum of lengths, dim], or coded rows if there is a codebook, and lengths [num_documents] as
    arrays. CollectionError if one is invalid."""
    given = np.asarray(lengths)
    if given.size > 0 and given.dtype.kind not in "iu":
        raise CollectionError(f"elements of {given.dtype}; must be integers", field="lengths")
    counts = given.astype(np.int64)
    rows = np.ascontiguousarray(vectors)
    if codebook is not None:
        coded_rows(rows, codebook)
    elif rows.ndim != 2 or rows.shape[1] != dim or rows.dtype not in (np.float16, np.float32):
        raise CollectionError(
            f"vectors: {rows.dtype} {list(rows.shape)}; must be float16 or float32 [tokens, {dim}]"
        )
    if counts.shape != (num_documents,) or num_payloads != num_documents:
        raise CollectionError(f"lengths, payloads: must be one for each of the {num_documents} ids")
    if num_documents > 0 and (counts.min() < 1 or counts.max() > MAX_DOCUMENT_TOKENS or counts.sum() != len(rows)):
        raise CollectionError(
            f"lengths: {counts.min()} .. {counts.max()}, {counts.sum()} in all; must be 1 .. {MAX_DOCUMENT_TOKENS}, "
            f"and {len(rows)} in all, the rows of the vectors"
        )
    return rows, counts


def encode_labels(
    ids: Sequence[Union[str, int]],
    payloads: Optional[Sequence[Optional[Mapping[str, Any]]]],
    fields: FieldReader,
    first_document: int,
) -> tuple[list[Union[bytes, int]], list[bytes]]:
    """Returns the ids and the payloads of packed documents in stored form. CollectionError names the document by its
    number, which begins at `first_document`."""
    keys: list[Union[bytes, int]] = []
    texts: list[bytes] = [b""] * len(ids)
    for index, id in enumerate(ids):
        is_id = False
        try:
            keys.append(encode_id(id))
            is_id = True
            if payloads is not None:
                texts[index] = encode_payload(payloads[index])
                fields.read(payloads[index])
            if isinstance(keys[-1], bytes) != isinstance(keys[0], bytes):
                raise CollectionError("it is a string, but others are integers, or the other way round")
        except CollectionError as error:
            where = f"document {first_document + index}" + (f", id {quote_id(id)}" if is_id else "")
            raise CollectionError(f"{where}: {error}") from None
    return keys, texts


def coded_rows(rows: Any, codebook: Codebook) -> tuple[NDArray[Any], str]:
    """Returns rows of residual codes and their type. CollectionError if they do not fit the codebook."""
    if type(rows) is not np.ndarray or rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != codebook.row_bytes:
        found = f"{rows.dtype} {list(rows.shape)}" if type(rows) is np.ndarray else type(rows).__name__
        raise CollectionError(f"{found}; must be uint8 [tokens, {codebook.row_bytes}]", field="vectors")
    found_numbers = codebook.numbers(rows)
    if len(rows) and int(found_numbers.max()) >= len(codebook.centroids):
        token = int(np.argmax(found_numbers >= len(codebook.centroids)))
        raise CollectionError(
            f"token {token} has centroid {found_numbers[token]} of {len(codebook.centroids)}", field="vectors"
        )
    return rows, codebook.storage


def token_rows(vectors: Any, dim: int, codebook: Optional[Codebook]) -> tuple[NDArray[Any], str]:
    """Returns a document's vectors [tokens, dim] and their type: f16, bf16 (as uint16) or f32. With a codebook,
    returns coded rows and codebook.storage instead."""
    if codebook is not None:
        rows, data_type = coded_rows(vectors, codebook)
        _check_length(rows)
        return rows, data_type
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
        raise CollectionError(f"shape {list(rows.shape)}; must be [tokens, {dim}]", field="vectors")
    _check_length(rows)
    return rows, data_type


def _check_length(rows: NDArray[Any]) -> None:
    if not 1 <= rows.shape[0] <= MAX_DOCUMENT_TOKENS:
        raise CollectionError(f"{rows.shape[0]} tokens; must be 1 to {MAX_DOCUMENT_TOKENS}", field="vectors")


@dataclass
class Documents:
    """Documents that `add` has received and that no shard has yet. Their vectors have one type."""

    layout: Layout
    first_document: int
    data_type: str = ""
    rows: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    num_rows: int = 0  # The number of `rows` in use. The other rows are spare.
    lengths: list[int] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    payload_bytes: int = 0
    loss: QuantizationLoss = QuantizationLoss()  # Set once the documents are encoded.
    first_lossy: Optional[int] = None  # The first document with a lossy token.

    def __len__(self) -> int:
        return len(self.lengths)

    def id_keys(self) -> Union[list[bytes], NDArray[np.int64]]:
        """Returns the ids: strings as a list, integers as an array."""
        return self.ids if self.layout.id_type == "string" else np.array(self.ids, dtype=np.int64)

    def encode(self, workers: Workers, quantizer: Optional[Quantizer]) -> Batch:
        """Returns the documents in stored form. CollectionError names a value that cannot be stored."""
        rows = self.rows[: self.num_rows]
        lengths = np.array(self.lengths, dtype=np.int64)
        scales = None
        if self.layout.codebook is not None:
            tokens = rows
        elif quantizer is None:
            tokens = convert(rows, self.data_type, self.layout.storage, workers)
            # Checks the narrowed values, because a value that is too large becomes infinity.
            self._check(tokens, self.layout.storage, rows)
        else:
            self._check(rows, self.data_type, rows)
            wide = to_float32(rows, self.data_type) if self.data_type == "bf16" else rows
            tokens, scales = quantizer.quantize(wide, lengths)
            self._check_scales(scales)
            self.loss = self._count_loss(tokens, wide)
        string_ids = self.layout.id_type == "string"
        return Batch(
            tokens=tokens,
            lengths=lengths,
            int_ids=None if string_ids else np.array(self.ids, dtype=np.int64),
            id_sizes=np.array([len(id) for id in self.ids], dtype=np.int64) if string_ids else None,
            id_bytes=b"".join(self.ids) if string_ids else b"",
            payload_sizes=np.array([len(payload) for payload in self.payloads], dtype=np.int64),
            payload_bytes=b"".join(self.payloads),
            scales=scales,
        )

    def _count_loss(self, tokens: NDArray[np.int8], rows: NDArray[Any]) -> QuantizationLoss:
        zeroed, coarse = lossy_rows(tokens, rows)
        if len(zeroed) + len(coarse) == 0:
            return QuantizationLoss()
        found = np.searchsorted(np.cumsum(self.lengths), np.concatenate([zeroed, coarse]), side="right")
        self.first_lossy = int(found.min())
        return QuantizationLoss(len(np.unique(found)), len(zeroed), len(coarse))

    def check_loss(self) -> None:
        """Raises CollectionError if a document has a lossy token."""
        if self.first_lossy is None:
            return
        raise CollectionError(
            f"{self._where(self.first_lossy)}: i8 keeps too little of some of its tokens, since others of its tokens "
            f"are far longer: {self.loss} among those written with it"
        )

    def _check(self, values: NDArray[Any], data_type: str, rows: NDArray[Any]) -> None:
        """Looks for values that cannot be stored. `rows` are the values before conversion."""
        found = find_unusable(values, data_type)
        if found is None:
            return
        row, column = divmod(found, self.layout.dim)
        ends = np.cumsum(self.lengths)
        document = int(np.searchsorted(ends, row, side="right"))
        token = row - int(ends[document]) + self.lengths[document]
        value = float(to_float32(rows[row, column : column + 1], self.data_type)[0])
        problem = describe_unusable(value, self.layout.storage)
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


class PendingDocuments:
    """Collects documents into `Documents` of some MiB. Copies their vectors."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        # There are two arrays: one collects documents while those in the other are stored.
        self._spare: NDArray[Any] = np.empty((0, layout.columns), dtype=np.float32)
        self._documents = Documents(layout, first_document=0, rows=self._spare)

    def __len__(self) -> int:
        return len(self._documents)

    def has_room(self, rows: NDArray[Any], data_type: str) -> bool:
        """Returns whether a document can join the collected ones. The first document always can."""
        documents = self._documents
        if not documents.lengths:
            return True
        return (
            data_type == documents.data_type
            and documents.num_rows + len(rows) <= len(documents.rows)
            and len(documents.lengths) < _BATCH_DOCUMENTS
            and documents.payload_bytes < _BATCH_PAYLOAD_BYTES
        )

    def add(self, id: Union[bytes, int], rows: NDArray[Any], data_type: str, payload: bytes) -> None:
        documents = self._documents
        if not documents.lengths:
            self._begin(rows, data_type)
        begin = documents.num_rows
        documents.num_rows += len(rows)
        documents.rows[begin : documents.num_rows] = rows
        documents.lengths.append(len(rows))
        documents.ids.append(id)
        documents.payloads.append(payload)
        documents.payload_bytes += len(payload)

    def _begin(self, rows: NDArray[Any], data_type: str) -> None:
        documents = self._documents
        documents.data_type = data_type
        columns = self._layout.columns
        element = SOURCE_TYPES[data_type] if self._layout.codebook is None else self._layout.value_type
        usual = max(1, _BATCH_BYTES // (columns * element.itemsize))
        wanted = max(usual, len(rows))
        # A large array that one long document needed is not kept for the short documents that follow.
        keeps = wanted <= len(documents.rows) <= max(usual, 2 * wanted)
        if not keeps or documents.rows.dtype != element:
            documents.rows = aligned_empty(wanted * columns, element).reshape(wanted, columns)

    def take(self) -> Documents:
        """Returns the collected documents, and starts to collect new ones. Their rows are valid until the next call,
        after which their array holds new documents."""
        taken = self._documents
        self._documents = Documents(self._layout, taken.first_document + len(taken), rows=self._spare)
        self._spare = taken.rows
        return taken

    def pack(
        self, ids: list[Any], rows: NDArray[Any], data_type: str, lengths: list[int], payloads: list[bytes]
    ) -> Documents:
        """Returns documents whose rows follow one another, without copying the rows. Documents that `add` collected
        must have been taken before."""
        assert not self._documents.lengths
        taken = Documents(
            self._layout, self._documents.first_document, data_type, rows, len(rows), lengths, ids, payloads
        )
        taken.payload_bytes = sum(map(len, payloads))
        self._documents.first_document += len(taken)
        return taken
