"""The results: rankings and their documents, read from the server's answers."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt

from .requests import Id
from .v1 import rerank_pb2 as pb


@dataclasses.dataclass(frozen=True)
class Document:
    """A document of a ranking.

    `id` is None for a document that was sent with the request. `position` is the index in the list of candidates that
    the client sent or, if the whole collection was ranked, the document's ordinal. `payload` is the parsed JSON
    object, if the caller asked for payloads and the document has one. With alignments=True, `matches` [query tokens]
    has the index of the document token that each query token matched, and `similarities` [query tokens] their inner
    products. `truncated`: the server's encoder cut off the end of the document's text, which was sent with the
    request. Not all encoders report this. With `group_by`, `group` is the document's value of that field."""

    id: Id | None
    score: float
    position: int
    payload: Any = None
    matches: npt.NDArray[np.int64] | None = dataclasses.field(default=None, compare=False)
    similarities: npt.NDArray[np.float32] | None = dataclasses.field(default=None, compare=False)
    truncated: bool = False
    group: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain Python values. Leaves out None, and `truncated` unless it is True."""
        values = {
            "id": self.id,
            "score": self.score,
            "position": self.position,
            "payload": self.payload,
            "matches": None if self.matches is None else self.matches.tolist(),
            "similarities": None if self.similarities is None else self.similarities.tolist(),
            "truncated": self.truncated or None,
            "group": self.group,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Refinement:
    """Describes a ranking that used a scan of the collection's codes.

    The scan used `planes` planes of the codes (bits per value: 1, 2 or 4), and selected `documents` documents, which
    were scored exactly. `proven`: no other document can be among the best offset + top_k. `margin` is the score at rank
    offset + top_k minus `outside_score`. `outside_score` is the highest score that the scan gave to a document that was
    not scored exactly; None if all were. It is an upper bound of the exact scores of all these documents if
    `outside_is_bound`, and otherwise an estimate."""

    planes: int
    documents: int
    proven: bool
    margin: float = 0.0
    outside_score: float | None = None
    outside_is_bound: bool = False


@dataclasses.dataclass(frozen=True)
class Ranking(Sequence[Document]):
    """The best documents of one query, best first. With `group_by`, the groups follow one another, the group with the
    best document first. A slice of a ranking is a ranking.

    The documents of a server's ranking are created when they are first used. `ids`, `scores` and `positions` create no
    documents, and an index creates one.

    `missing` has the candidates that the collection does not hold. `generation` is the version of the collection's
    files, or 0 without a collection. `unavailable` is the number of candidates that were not scored because the server
    has lost their device or, if it is a router, does not reach the servers that hold them; `unavailable_groups` names
    the groups of servers that it does not reach, and is empty for tenants. `query_tokens` are the query's tokens as
    text, if the query is a text, alignments is True and the encoder reports them. `sequence` is the number of the last
    write to a live collection that the answer reflects, and 0 for other collections. `query_truncated`: the server's
    encoder cut off the end of the query's text. Not all encoders report this. `refinement` describes the scan of the
    collection's codes that selected documents, and says whether the ranking is proven. It is None if every candidate
    was scored."""

    documents: list[Document]
    missing: list[Id] = dataclasses.field(default_factory=list)
    generation: int = 0
    unavailable: int = 0
    query_tokens: list[str] = dataclasses.field(default_factory=list)
    sequence: int = 0
    query_truncated: bool = False
    refinement: Refinement | None = None
    unavailable_groups: list[str] = dataclasses.field(default_factory=list)

    @property
    def ids(self) -> list[Id]:
        """The documents' ids. For a document that was sent with the request, which has no id, its position."""
        answer = self._answer()
        if answer is not None:
            return answer.ids()
        return [document.position if document.id is None else document.id for document in self.documents]

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """The documents' scores, float32 [documents]."""
        answer = self._answer()
        if answer is not None:
            return np.array(answer.result.scores, np.float32)
        return np.array([document.score for document in self.documents], np.float32)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The documents' positions among the candidates, int64 [documents]."""
        answer = self._answer()
        if answer is not None:
            return np.array(answer.result.positions, np.int64)
        return np.array([document.position for document in self.documents], np.int64)

    def __len__(self) -> int:
        answer = self._answer()
        return len(self.documents) if answer is None else len(answer.result.scores)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Ranking: ...
    def __getitem__(self, index: int | slice) -> Document | Ranking:
        answer = self._answer()
        if isinstance(index, slice):
            if answer is None:
                documents = self.documents[index]
            else:
                documents = [answer.document(i) for i in range(len(self))[index]]
            return dataclasses.replace(self, documents=documents)
        return self.documents[index] if answer is None else answer.document(range(len(self))[index])

    def to_dict(self) -> dict[str, Any]:
        """Returns plain Python values that json.dumps accepts."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "missing": list(self.missing),
            "generation": self.generation,
            "unavailable": self.unavailable,
            "query_tokens": list(self.query_tokens),
            "sequence": self.sequence,
            "query_truncated": self.query_truncated,
            "refinement": None if self.refinement is None else dataclasses.asdict(self.refinement),
            "unavailable_groups": list(self.unavailable_groups),
        }

    def _answer(self) -> _Answer | None:
        """Returns the message from which documents will be created, or None if `documents` has all of them."""
        return self.__dict__.get("_unread")

    if not TYPE_CHECKING:  # hidden, because a type checker would otherwise accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Creates `documents` on first use. Python calls this only for attributes that do not exist."""
            values = self.__dict__
            answer = values.get("_unread") if name == "documents" else None
            if answer is not None:
                values.setdefault("documents", answer.documents())
                values.pop("_unread", None)
            if name in values:  # Another thread may have created it.
                return values[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why a document has its score.

    `similarities` [query tokens, document tokens] are the inner products, before weights. `score` is the sum of each
    query token's largest one, times the token's weight. `query_tokens` and `document_tokens` are the tokens as text.
    `query_tokens` is empty unless the query is a text and the encoder reports its tokens, and `document_tokens` is
    empty unless the document's payload has a list `tokens` with one text per token. `generation` and `query_truncated`
    are those of a Ranking."""

    score: float
    similarities: npt.NDArray[np.float64] = dataclasses.field(compare=False)
    query_tokens: list[str] = dataclasses.field(default_factory=list)
    document_tokens: list[str] = dataclasses.field(default_factory=list)
    generation: int = 0
    query_truncated: bool = False

    @property
    def matches(self) -> npt.NDArray[np.int64]:
        """The index of the best document token of each query token, int64 [query tokens]. If several are equally good,
        the lowest index."""
        return np.array(np.argmax(self.similarities, axis=1), np.int64)


def read_explanation(response: pb.ExplainResponse) -> Explanation:
    return Explanation(
        response.score,
        np.array(response.similarities, np.float64).reshape(response.num_query_tokens, response.num_document_tokens),
        list(response.query_tokens),
        list(response.document_tokens),
        response.generation,
        response.query_truncated,
    )


class _Answer:
    """One query's result from the server, and the Documents created from it so far. Thread-safe: threads that use a
    ranking at the same time get the same Documents, because the caller may change their payloads."""

    def __init__(self, result: pb.QueryResult) -> None:
        self.result = result
        kind = result.WhichOneof("ids")
        self._ids: Sequence[Id] | None = None
        if kind is not None:
            self._ids = result.string_ids.ids if kind == "string_ids" else result.int_ids.ids
        self._lock = threading.Lock()
        self._made: dict[int, Document] = {}  # by index; not used after _all is set
        self._all: list[Document] | None = None

    def ids(self) -> list[Id]:
        return [*(self.result.positions if self._ids is None else self._ids)]

    def document(self, index: int) -> Document:
        """Returns the document at an index from 0."""
        with self._lock:
            if self._all is not None:
                return self._all[index]
            if index not in self._made:
                self._made[index] = self._make(index)
            return self._made[index]

    def documents(self) -> list[Document]:
        """Returns all documents, always the same list."""
        with self._lock:
            if self._all is None:
                self._all = self._make_all()
            return self._all

    def _make_all(self) -> list[Document]:
        """Returns all documents, including those that exist already. Reading column by column takes half as long as
        calling `_make` for each document."""
        result = self.result
        documents = [
            Document(*values)
            for values in zip(
                repeat(None) if self._ids is None else [*self._ids],
                [*result.scores],
                [*result.positions],
                chain(map(_payload, result.payloads), repeat(None)),
                chain(map(_matches, result.alignments), repeat(None)),
                chain(map(_similarities, result.alignments), repeat(None)),
                chain(result.truncated, repeat(False)),
                chain(result.group_values, repeat(None)),
            )
        ]
        for i, made in self._made.items():
            documents[i] = made
        return documents

    def _make(self, i: int) -> Document:
        result = self.result
        return Document(
            None if self._ids is None else self._ids[i],
            result.scores[i],
            result.positions[i],
            _payload(result.payloads[i]) if i < len(result.payloads) else None,
            _matches(result.alignments[i]) if i < len(result.alignments) else None,
            _similarities(result.alignments[i]) if i < len(result.alignments) else None,
            i < len(result.truncated) and result.truncated[i],
            result.group_values[i] if i < len(result.group_values) else None,
        )


def _payload(text: str) -> Any:
    return json.loads(text) if text else None


def _matches(alignment: pb.Alignment) -> npt.NDArray[np.int64]:
    return np.array(alignment.document_tokens, np.int64)


def _similarities(alignment: pb.Alignment) -> npt.NDArray[np.float32]:
    return np.array(alignment.similarities, np.float32)


def read_response(response: pb.RerankResponse) -> list[Ranking]:
    """Returns the rankings of an answer, one per query."""
    return [_ranking(result, response) for result in response.results]


def _ranking(result: pb.QueryResult, response: pb.RerankResponse) -> Ranking:
    """Returns a ranking that creates `documents` on first use."""
    ranking = Ranking.__new__(Ranking)
    ranking.__dict__.update(
        _unread=_Answer(result),
        missing=missing_ids(result),
        generation=response.generation,
        unavailable=result.unavailable_documents,
        query_tokens=list(result.query_tokens),
        sequence=response.sequence,
        query_truncated=result.query_truncated,
        refinement=_refinement(result),
        unavailable_groups=list(response.unavailable_groups),
    )
    return ranking


def _refinement(result: pb.QueryResult) -> Refinement | None:
    if not result.HasField("refinement"):
        return None
    message = result.refinement
    return Refinement(
        planes=message.planes,
        documents=message.documents,
        proven=message.certificate == pb.CERTIFICATE_PROVEN,
        margin=message.margin,
        outside_score=message.outside_score if message.HasField("outside_score") else None,
        outside_is_bound=message.outside_is_bound,
    )


class _WithMissing(Protocol):
    """A message with the ids that a collection does not hold."""

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
