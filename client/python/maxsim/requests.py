"""The one place that makes messages: requests of arrays, texts and ids. Both clients send what is made here."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .v1 import rerank_pb2 as pb
from .vectors import TokenVectors, VectorsLike, token_vectors

Id: TypeAlias = "str | int"
Ids: TypeAlias = "Iterable[str] | Iterable[SupportsIndex] | npt.NDArray[Any]"
Query: TypeAlias = "VectorsLike | str"
Documents: TypeAlias = "Sequence[VectorsLike] | Sequence[str] | npt.NDArray[Any]"
Weights: TypeAlias = "Sequence[float] | npt.NDArray[Any]"
Priority: TypeAlias = Literal["low", "normal", "high"]
MissingPolicy: TypeAlias = Literal["report", "fail"]

_DATA_TYPES = {"f32": pb.DATA_TYPE_F32, "f16": pb.DATA_TYPE_F16, "bf16": pb.DATA_TYPE_BF16}
_PRIORITIES = {"low": pb.PRIORITY_LOW, "normal": pb.PRIORITY_NORMAL, "high": pb.PRIORITY_HIGH}
_MISSING_POLICIES = {"report": pb.MISSING_POLICY_REPORT, "fail": pb.MISSING_POLICY_FAIL}


@dataclasses.dataclass(frozen=True)
class Request:
    """One query of a stream (rerank_stream), with the candidates and options that `rerank` takes."""

    collection: str | None
    query: Query
    ids: Ids | None = None
    _: dataclasses.KW_ONLY
    documents: Documents | None = None
    weights: Weights | None = None
    top_k: int = 10
    payloads: bool = False
    payload_fields: Sequence[str] = ()
    alignments: bool = False
    normalize: bool = False
    priority: Priority = "normal"
    missing_policy: MissingPolicy = "report"
    request_id: str = ""

    def to_message(self) -> pb.RerankRequest:
        """Returns the message. ValueError names the argument that is wrong."""
        request = make_request(
            self.collection,
            top_k=self.top_k,
            payloads=self.payloads,
            payload_fields=self.payload_fields,
            alignments=self.alignments,
            normalize=self.normalize,
            priority=self.priority,
            missing_policy=self.missing_policy,
            request_id=self.request_id,
        )
        _fill_query(request.queries.add(), self.query, self.weights, "query")
        fill_candidates(request.candidates, self.ids, self.documents)
        return request


def make_request(
    collection: str | None,
    *,
    top_k: int,
    payloads: bool,
    payload_fields: Sequence[str],
    alignments: bool,
    normalize: bool,
    priority: str,
    missing_policy: str,
    request_id: str,
) -> pb.RerankRequest:
    """Returns a request that has no queries and no candidates yet. Those are filled in where they stand: vectors are
    large, and a message that is put into another one is copied."""
    if isinstance(payload_fields, str):
        raise ValueError("payload_fields is a list of names; this is one string")
    return pb.RerankRequest(
        request_id=request_id,
        collection=collection or "",
        top_k=top_k,
        missing_policy=_named(missing_policy, "missing_policy", _MISSING_POLICIES),
        priority=_named(priority, "priority", _PRIORITIES),
        return_payloads=payloads,
        return_alignments=alignments,
        payload_fields=payload_fields,
        normalize=normalize,
    )


def add_queries(
    request: pb.RerankRequest,
    queries: Sequence[Query],
    ids: Ids | Sequence[Ids | None] | None,
    documents: Documents | Sequence[Documents] | None,
    weights: Sequence[Weights | None] | None,
) -> None:
    """Adds several queries and their candidates: the request's, where they share them, else each query's own."""
    if isinstance(queries, str):
        raise ValueError("queries is a list of queries; this is one string")
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    _check_number(weights, "lists of weights", queries)
    for i, query in enumerate(queries):
        _fill_query(request.queries.add(), query, None if weights is None else weights[i], f"queries[{i}]")
    given: Any = documents
    listed: Any = None
    if ids is not None:
        # An iterator is read once, here.
        listed = ids if isinstance(ids, (str, bytes, np.ndarray)) else list(ids)
        if _are_lists_of_ids(listed):
            _check_number(listed, "lists of ids", queries)
            for i, message in enumerate(request.queries):
                fill_candidates(message.candidates, listed[i], None, f"ids[{i}]")
            return
    elif documents is not None and _depth(documents) in (2, 4):
        _check_number(given, "lists of documents", queries)
        for i, message in enumerate(request.queries):
            fill_candidates(message.candidates, None, given[i], f"documents[{i}]")
        return
    fill_candidates(request.candidates, listed, given)


def _check_number(lists: Sequence[Any] | None, what: str, queries: Sequence[Any]) -> None:
    if lists is not None and len(lists) != len(queries):
        raise ValueError(f"{len(lists)} {what} for {len(queries)} queries")


def _are_lists_of_ids(ids: Any) -> bool:
    """Says whether these are candidates a query, and not ids that all queries share."""
    if isinstance(ids, np.ndarray):
        return ids.ndim == 2
    return any(one is None or isinstance(one, (list, tuple)) or getattr(one, "ndim", 0) == 1 for one in ids)


def _depth(documents: Any) -> int:
    """Returns how many sequences lie around the first number or text: 1 for texts, 2 for texts a query, 3 for documents
    of vectors, 4 for such documents a query."""
    if isinstance(documents, str):
        return 0
    if isinstance(documents, TokenVectors):
        return 2
    dimensions = getattr(documents, "ndim", None)
    if dimensions is not None:
        return int(dimensions)
    if not isinstance(documents, Sequence):
        return 0
    return 1 + max((_depth(one) for one in documents[:1]), default=0)


def token_matrix(tokens: VectorsLike, name: str = "tokens") -> pb.TokenMatrix:
    """Returns a [tokens, dim] array as the wire carries it. Element types are those of maxsim.token_vectors."""
    matrix = pb.TokenMatrix()
    _fill_matrix(matrix, tokens, name)
    return matrix


def _fill_matrix(matrix: pb.TokenMatrix, tokens: VectorsLike, name: str) -> None:
    vectors = token_vectors(tokens, name=name)
    matrix.dtype = _DATA_TYPES[vectors.data_type]
    matrix.num_tokens = vectors.num_tokens
    matrix.dim = vectors.dim
    matrix.data = vectors.data.tobytes()


def _fill_query(message: pb.Query, query: Query, weights: Weights | None, name: str) -> None:
    """A query of token vectors, or of a text, which the server's encoder turns into vectors."""
    if isinstance(query, str):
        message.text = query
    else:
        _fill_matrix(message.tokens, query, name)
    if weights is not None:
        message.weights.extend(float(weight) for weight in weights)


def fill_candidates(
    message: pb.Candidates, ids: Ids | None, documents: Documents | None, name: str | None = None
) -> None:
    """Candidates are documents of the collection, documents that come with the request, or, with neither, the whole
    collection."""
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if documents is not None:
        _fill_documents(message.inline_documents, documents, name or "documents")
    elif ids is None:
        message.whole_collection.SetInParent()
    else:
        _fill_ids(message, ids, name or "ids")


def _fill_documents(message: pb.InlineDocuments, documents: Documents, name: str) -> None:
    if isinstance(documents, str):
        raise ValueError(f"{name} is a list of documents; this is one string")
    listed: list[Any] = list(documents)
    if not listed:
        raise ValueError(f"{name} is empty; at least one document is needed")
    texts = [document for document in listed if isinstance(document, str)]
    if texts and len(texts) != len(listed):
        raise ValueError(f"{name} holds texts and vectors; it is all of one kind")
    message.texts.extend(texts)
    if not texts:
        for i, document in enumerate(listed):
            _fill_matrix(message.documents.add(), document, f"{name}[{i}]")


def _fill_ids(message: pb.Candidates, ids: Ids, name: str) -> None:
    """The first id decides which kind all must be of."""
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    if isinstance(ids, (str, bytes)):
        raise ValueError(f"{name} is a list of ids; this is one string")
    listed: list[Any] = list(ids)
    if not listed:
        raise ValueError(f"{name} is empty; at least one candidate is needed (None is the whole collection)")
    # Lists are long, and str and int are what they mostly hold.
    if isinstance(listed[0], str):
        message.string_ids.ids.extend(_checked([i if isinstance(i, str) else None for i in listed], listed, name))
    else:
        message.int_ids.ids.extend(_checked([i if type(i) is int else _integer(i) for i in listed], listed, name))


def _checked(values: list[Any], listed: list[Any], name: str) -> list[Any]:
    if None in values:
        position = values.index(None)
        raise ValueError(f"{name}[{position}] is {listed[position]!r}; ids must be all strings or all integers")
    return values


def _integer(value: Any) -> int | None:
    """Returns the int that an integer of any type is; None for a bool, a float and everything else."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _named(value: str, option: str, names: dict[str, Any]) -> Any:
    if value not in names:
        raise ValueError(f"{option} is {value!r}; it is one of {', '.join(names)}")
    return names[value]
