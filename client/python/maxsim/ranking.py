"""What comes back: rankings and their documents, read from the wire."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt

from .requests import Id
from .v1 import rerank_pb2 as pb


@dataclasses.dataclass(frozen=True)
class Document:
    """A document of a ranking.

    `id` is None for documents that came with the request. `position` is that in the list of candidates as it was sent;
    where the whole collection was ranked, the document's ordinal. `payload` is the parsed JSON object, where payloads
    were asked for and the document has one. With alignments=True, `matches` [query tokens] is the index of the document
    token that each query token matched, and `similarities` [query tokens] their inner product."""

    id: Id | None
    score: float
    position: int
    payload: Any = None
    matches: npt.NDArray[np.int64] | None = dataclasses.field(default=None, compare=False)
    similarities: npt.NDArray[np.float32] | None = dataclasses.field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain Python values, without what is None."""
        values = {
            "id": self.id,
            "score": self.score,
            "position": self.position,
            "payload": self.payload,
            "matches": None if self.matches is None else self.matches.tolist(),
            "similarities": None if self.similarities is None else self.similarities.tolist(),
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Ranking(Sequence[Document]):
    """The best documents of one query, best first. A slice of it is a ranking again.

    `missing` are the candidates that the collection does not hold. `generation` is that of the collection which
    answered, 0 without one. `unavailable` counts candidates that were not scored because the server has lost their
    device. `query_tokens` are the query's tokens as text, for a query of text with alignments=True where the encoder
    names them. `sequence` is the number of the last write to a live collection that the answer has seen, 0 of any
    other."""

    documents: list[Document]
    missing: list[Id] = dataclasses.field(default_factory=list)
    generation: int = 0
    unavailable: int = 0
    query_tokens: list[str] = dataclasses.field(default_factory=list)
    sequence: int = 0

    @property
    def ids(self) -> list[Id]:
        """The documents' ids. Documents that came with the request have none: their positions stand here."""
        return [document.position if document.id is None else document.id for document in self.documents]

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """The documents' scores, float32 [documents]."""
        return np.array([document.score for document in self.documents], np.float32)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The documents' positions among the candidates, int64 [documents]."""
        return np.array([document.position for document in self.documents], np.int64)

    def __len__(self) -> int:
        return len(self.documents)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Ranking: ...
    def __getitem__(self, index: int | slice) -> Document | Ranking:
        if isinstance(index, slice):
            return dataclasses.replace(self, documents=self.documents[index])
        return self.documents[index]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain Python values, which json.dumps takes."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "missing": list(self.missing),
            "generation": self.generation,
            "unavailable": self.unavailable,
            "query_tokens": list(self.query_tokens),
            "sequence": self.sequence,
        }


def read_response(response: pb.RerankResponse) -> list[Ranking]:
    """Returns the rankings of an answer, one a query."""
    return [_ranking(result, response) for result in response.results]


def _ranking(result: pb.QueryResult, response: pb.RerankResponse) -> Ranking:
    ids = _ids(result)
    documents = []
    for i, score in enumerate(result.scores):
        payload = json.loads(result.payloads[i]) if i < len(result.payloads) and result.payloads[i] else None
        matches, similarities = None, None
        if i < len(result.alignments):
            matches = np.array(result.alignments[i].document_tokens, np.int64)
            similarities = np.array(result.alignments[i].similarities, np.float32)
        id = None if ids is None else ids[i]
        documents.append(Document(id, score, result.positions[i], payload, matches, similarities))
    return Ranking(
        documents,
        missing_ids(result),
        response.generation,
        result.unavailable_documents,
        list(result.query_tokens),
        response.sequence,
    )


def _ids(result: pb.QueryResult) -> Sequence[Id] | None:
    kind = result.WhichOneof("ids")
    if kind is None:
        return None
    return result.string_ids.ids if kind == "string_ids" else result.int_ids.ids


class _WithMissing(Protocol):
    """A message that names the ids which a collection does not hold."""

    @property
    def missing_string_ids(self) -> pb.StringIds: ...
    @property
    def missing_int_ids(self) -> pb.IntIds: ...
    def WhichOneof(self, oneof_group: Literal["missing"]) -> str | None: ...


def missing_ids(result: _WithMissing) -> list[Id]:
    """Returns the ids that the collection does not hold."""
    kind = result.WhichOneof("missing")
    if kind is None:
        return []
    return [*(result.missing_string_ids.ids if kind == "missing_string_ids" else result.missing_int_ids.ids)]
