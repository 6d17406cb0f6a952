"""Documents that are written to live collections or read from collections, and the results of writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import errors
from .bfloat16 import widen_bfloat16
from .ranking import missing_ids
from .requests import Id
from .v1 import documents_pb2
from .v1 import rerank_pb2 as pb
from .vectors import VectorsLike

Outcome: TypeAlias = Literal["applied", "stale", "not_found"]

_OUTCOMES: dict[int, Outcome] = {
    documents_pb2.WRITE_OUTCOME_APPLIED: "applied",
    documents_pb2.WRITE_OUTCOME_STALE: "stale",
    documents_pb2.WRITE_OUTCOME_NOT_FOUND: "not_found",
}


@dataclasses.dataclass(frozen=True)
class NewDocument:
    """A document to write. It replaces the document that has its id, if there is one.

    `id` is a string of 1 to 512 bytes or a 64-bit integer, depending on the collection. Give either `tokens`, the
    token vectors [tokens, dim] (in any form that maxsim.token_vectors takes), or `text`, which the server's encoder
    turns into token vectors. `payload` is a JSON object of at most 1 MiB, as a mapping or as text. `version`, at
    least 1, for example a time or the number of a change, prevents an older write from replacing a newer one."""

    id: Id
    tokens: VectorsLike | None = None
    _: dataclasses.KW_ONLY
    text: str | None = None
    payload: Mapping[str, Any] | str | None = None
    version: int | None = None


# A mapping has the names of NewDocument. A tuple is (id, tokens or text) or (id, tokens or text, payload).
DocumentLike: TypeAlias = (
    "NewDocument | Mapping[str, Any] | tuple[Id, VectorsLike | str] | tuple[Id, VectorsLike | str, Mapping[str, Any]]"
)


@dataclasses.dataclass(frozen=True)
class WriteResult:
    """The result of writing or deleting one document. `outcome` is "applied": the write is done, and requests see it;
    "stale": the collection holds the same or a newer version, and nothing changed; or, for a delete, "not_found": the
    collection does not hold the id. `sequence` is the number of the write, or 0 if nothing was written. `truncated`:
    the server's encoder cut off the end of the document's text. Not all encoders report this."""

    outcome: Outcome
    sequence: int
    truncated: bool = False


@dataclasses.dataclass(frozen=True)
class WriteResults(Sequence[WriteResult]):
    """The results of a call, one per document or id, in order.

    `sequence` is the number of the collection's last write when the call was done: a request with min_sequence=sequence
    sees all writes of the call. `encoded_tokens` is the number of token vectors that the server's encoder made from
    texts."""

    results: list[WriteResult]
    sequence: int
    encoded_tokens: int = 0

    @property
    def num_applied(self) -> int:
        return sum(result.outcome == "applied" for result in self.results)

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> WriteResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[WriteResult]: ...
    def __getitem__(self, index: int | slice) -> WriteResult | list[WriteResult]:
        return self.results[index]


@dataclasses.dataclass(frozen=True)
class UpsertSummary:
    """The result of a stream: how many documents were applied and how many were stale. `sequence` and
    `encoded_tokens` are as in WriteResults. `num_requests` is the number of requests in the stream."""

    num_applied: int
    num_stale: int
    sequence: int
    encoded_tokens: int
    num_requests: int


@dataclasses.dataclass(frozen=True)
class DeleteSummary:
    """The result of deleting the documents that match a filter.

    `num_deleted` counts the documents that the call deleted. `num_missing` counts documents that matched, but that
    another call deleted first. `num_stale` counts documents that matched, but that another call gave the same or a
    newer version in the meantime: they stay. A request with min_sequence=sequence sees all of these deletes."""

    num_deleted: int
    num_missing: int
    num_stale: int
    sequence: int


@dataclasses.dataclass(frozen=True)
class StoredDocument:
    """A document that the collection holds.

    `tokens` is float32 [num_tokens, dim], or None if the caller did not ask for vectors. In an i8 collection they are
    the vectors from which scores are computed, quantised and rotated, and not those that were written. `version` is 0
    if the document has none. `sequence` is the number of the write that added the document, or 0 if the document is in
    the collection's shards (its immutable files)."""

    id: Id
    num_tokens: int
    payload: Any = None
    version: int = 0
    sequence: int = 0
    tokens: npt.NDArray[np.float32] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class StoredDocuments(Sequence[StoredDocument]):
    """The documents that were found, in the order of the ids. `missing` has the ids that the collection does not hold.
    `generation` (the version of the collection's files) and `sequence` (the number of its last write) say which state
    of the collection was read."""

    documents: list[StoredDocument]
    missing: list[Id] = dataclasses.field(default_factory=list)
    generation: int = 0
    sequence: int = 0

    def __len__(self) -> int:
        return len(self.documents)

    @overload
    def __getitem__(self, index: int) -> StoredDocument: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoredDocument]: ...
    def __getitem__(self, index: int | slice) -> StoredDocument | list[StoredDocument]:
        return self.documents[index]


@dataclasses.dataclass(frozen=True)
class FacetValue:
    """A value of a field, and the number of documents that have it."""

    value: str
    count: int


@dataclasses.dataclass(frozen=True)
class Facets(Sequence[FacetValue]):
    """The values of a field, those with the highest counts first. Values of equal counts are in the order of their
    UTF-8 bytes.

    `num_values` is the number of all values that the matching documents have, including those beyond the limit.
    `num_documents` is the number of matching documents, with or without a value. `generation` (the version of the
    collection's files) and `sequence` (the number of its last write) say which state of the collection was counted."""

    values: list[FacetValue]
    num_values: int = 0
    num_documents: int = 0
    generation: int = 0
    sequence: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> FacetValue: ...
    @overload
    def __getitem__(self, index: slice) -> list[FacetValue]: ...
    def __getitem__(self, index: int | slice) -> FacetValue | list[FacetValue]:
        return self.values[index]


def read_facets(response: documents_pb2.FacetsResponse) -> Facets:
    """Reads the facets from an answer."""
    return Facets(
        [FacetValue(value.value, value.count) for value in response.values],
        response.num_values,
        response.num_documents,
        response.generation,
        response.sequence,
    )


def read_documents(response: documents_pb2.GetResponse) -> StoredDocuments:
    """Returns the documents of an answer."""
    documents = [read_document(document) for document in response.documents]
    return StoredDocuments(documents, missing_ids(response), response.generation, response.sequence)


def read_summary(response: documents_pb2.UpsertStreamResponse) -> UpsertSummary:
    """Reads the answer to a stream."""
    return UpsertSummary(
        response.num_applied, response.num_stale, response.sequence, response.encoded_tokens, response.num_requests
    )


def write_result(result: documents_pb2.WriteResult) -> WriteResult:
    outcome = _OUTCOMES.get(result.outcome)
    if outcome is None:
        raise errors.Internal(f"the server answered the outcome {result.outcome}, which this version does not know")
    return WriteResult(outcome, result.sequence, result.truncated)


def read_document(document: documents_pb2.StoredDocument) -> StoredDocument:
    """Returns one document of an answer."""
    return StoredDocument(
        document.string_id if document.WhichOneof("id") == "string_id" else document.int_id,
        document.num_tokens,
        json.loads(document.payload) if document.payload else None,
        document.version,
        document.sequence,
        _stored_tokens(document) if document.HasField("tokens") else None,
    )


def _stored_tokens(document: documents_pb2.StoredDocument) -> npt.NDArray[np.float32]:
    matrix = document.tokens
    shape = matrix.num_tokens, matrix.dim
    if matrix.dtype == pb.DATA_TYPE_I8:
        return np.frombuffer(matrix.data, np.int8).reshape(shape).astype(np.float32) * np.float32(document.scale)
    if matrix.dtype == pb.DATA_TYPE_BF16:
        return widen_bfloat16(np.frombuffer(matrix.data, "<u2").reshape(shape))
    element = "<f2" if matrix.dtype == pb.DATA_TYPE_F16 else "<f4"
    return np.frombuffer(matrix.data, element).reshape(shape).astype(np.float32)
