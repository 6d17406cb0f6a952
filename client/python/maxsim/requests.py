"""Makes all request messages of arrays, texts and ids, for both clients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from . import arguments
from .filters import FilterLike, fill_filter
from .v1 import rerank_pb2 as pb
from .vectors import TokenVectors, VectorsLike, token_vectors

Id: TypeAlias = "str | int"
Ids: TypeAlias = "Iterable[str] | Iterable[SupportsIndex] | npt.NDArray[Any]"
Query: TypeAlias = "VectorsLike | str"
Documents: TypeAlias = "Sequence[VectorsLike] | Sequence[str] | npt.NDArray[Any]"
Weights: TypeAlias = "Sequence[float] | npt.NDArray[Any]"
Priority: TypeAlias = Literal["low", "normal", "high"]
MissingPolicy: TypeAlias = Literal["report", "fail"]

_IDS = "a list of ids"
_DATA_TYPES = {"f32": pb.DATA_TYPE_F32, "f16": pb.DATA_TYPE_F16, "bf16": pb.DATA_TYPE_BF16}
_PRIORITIES = {"low": pb.PRIORITY_LOW, "normal": pb.PRIORITY_NORMAL, "high": pb.PRIORITY_HIGH}
_MISSING_POLICIES = {"report": pb.MISSING_POLICY_REPORT, "fail": pb.MISSING_POLICY_FAIL}


class _WithIds(Protocol):
    """A message with ids, which are either strings or integers."""

    @property
    def string_ids(self) -> pb.StringIds: ...
    @property
    def int_ids(self) -> pb.IntIds: ...


@dataclasses.dataclass(frozen=True)
class RefinementOptions:
    """Options for a query on a collection that has codes. If it has more candidates than `documents`, a scan of the
    codes estimates their scores, and the `documents` best candidates are scored exactly.

    documents: the number of documents to score, at least offset + top_k. 0 means 1,000 + 20 (offset + top_k). If it
        is at least the number of candidates, nothing is scanned.
    require_proof: scores more documents, up to `budget`, until it is proven that no other document is among the best.
    budget: the largest number of documents to score with require_proof. 0 means 16 times `documents`."""

    documents: int = 0
    _: dataclasses.KW_ONLY
    require_proof: bool = False
    budget: int = 0

    def to_message(self) -> pb.RefinementOptions:
        """Returns the message. ValueError names the wrong member."""
        return pb.RefinementOptions(
            documents=arguments.whole_number(self.documents, "refinement.documents", 0, arguments.MAX_TOP_K),
            budget=arguments.whole_number(self.budget, "refinement.budget", 0, arguments.MAX_TOP_K),
            require_proof=arguments.flag(self.require_proof, "refinement.require_proof"),
        )


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
    offset: int = 0
    min_score: float | None = None
    group_by: str | None = None
    group_size: int = 1
    payloads: bool = False
    payload_fields: Sequence[str] = ()
    alignments: bool = False
    normalize: bool = False
    priority: Priority = "normal"
    missing_policy: MissingPolicy = "report"
    request_id: str = ""
    min_sequence: int | None = None
    refinement: RefinementOptions | None = None
    filter: FilterLike | None = None

    def to_message(self) -> pb.RerankRequest:
        """Returns the message. ValueError names the wrong argument."""
        request = make_request(self)
        _fill_query(request.queries.add(), self.query, self.weights, "query", "weights")
        fill_candidates(request.candidates, self.ids, self.documents)
        return request


def make_explain_request(
    collection: str, query: Query, id: Id, weights: Weights | None, min_sequence: int | None
) -> pb.RerankRequest:
    if not isinstance(id, str) and arguments.integer(id) is None:
        raise ValueError(f"id is {arguments.shown(id)}; must be a string or an integer")
    ids: Any = [id]
    return Request(collection, query, ids, weights=weights, min_sequence=min_sequence).to_message()


def make_request(given: Request) -> pb.RerankRequest:
    """Returns a request with the options of `given`, and without queries and candidates. The caller fills these in
    directly: they are large, and a message that is put into another one is copied."""
    fields = arguments.items(given.payload_fields, "payload_fields", "a list of names")
    group_by = given.group_by
    request = pb.RerankRequest(
        request_id=_request_id(given.request_id),
        collection=collection_name(given.collection),
        top_k=arguments.whole_number(given.top_k, "top_k", 0, arguments.MAX_TOP_K),
        offset=arguments.whole_number(given.offset, "offset", 0, arguments.MAX_TOP_K),
        min_score=_min_score(given.min_score),
        group_by=None if group_by is None else arguments.text(group_by, "group_by", "the name of a field, or None"),
        group_size=_group_size(given.group_size, group_by),
        missing_policy=arguments.named(given.missing_policy, "missing_policy", _MISSING_POLICIES),
        priority=arguments.named(given.priority, "priority", _PRIORITIES),
        return_payloads=arguments.flag(given.payloads, "payloads"),
        return_alignments=arguments.flag(given.alignments, "alignments"),
        payload_fields=[arguments.text(field, f"payload_fields[{i}]") for i, field in enumerate(fields)],
        normalize=arguments.flag(given.normalize, "normalize"),
        min_sequence=arguments.sequence(given.min_sequence, "min_sequence"),
        refinement=_refinement(given.refinement),
    )
    fill_filter(request, given.filter)
    return request


def collection_name(collection: str | None) -> str:
    """Returns the name as requests carry it: "" for None."""
    return "" if collection is None else arguments.text(collection, "collection", "the name of a collection, or None")


def _min_score(min_score: float | None) -> float | None:
    if min_score is None:
        return None
    accepted = "a finite number of 32 bits, or None"
    number = arguments.real_number(min_score, "min_score", accepted)
    if abs(number) > np.finfo(np.float32).max:
        raise ValueError(f"min_score is {arguments.shown(min_score)}; must be {accepted}")
    return number


def _group_size(group_size: int, group_by: str | None) -> int:
    size = arguments.whole_number(group_size, "group_size", 1, arguments.MAX_TOP_K)
    if group_by is not None:
        return size
    if size != 1:
        raise ValueError(f"group_size is {size}, but group_by is None; only groups have a size")
    return 0


def _refinement(refinement: RefinementOptions | None) -> pb.RefinementOptions | None:
    if refinement is None:
        return None
    if not isinstance(refinement, RefinementOptions):
        raise ValueError(f"refinement is {arguments.shown(refinement)}; must be a RefinementOptions, or None")
    return refinement.to_message()


def _request_id(request_id: str) -> str:
    arguments.text(request_id, "request_id")
    if len(request_id.encode()) > arguments.MAX_REQUEST_ID_BYTES:
        raise ValueError(
            f"request_id is {arguments.shown(request_id)}, {len(request_id.encode())} bytes; "
            f"must have at most {arguments.MAX_REQUEST_ID_BYTES}"
        )
    return request_id


def add_queries(
    request: pb.RerankRequest,
    queries: Sequence[Query],
    ids: Ids | Sequence[Ids | None] | None,
    documents: Documents | Sequence[Documents] | None,
    weights: Sequence[Weights | None] | None,
) -> None:
    """Adds several queries and their candidates. Puts candidates that all queries share into the request, and others
    into their query."""
    queries = list(arguments.items(queries, "queries", "a list of queries"))
    if not queries:
        raise ValueError("queries is empty; at least one query is needed")
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if weights is not None:
        weights = list(arguments.items(weights, "weights", "a list with the weights of each query"))
        _check_number(weights, "lists of weights", queries)
    for i, query in enumerate(queries):
        own = None if weights is None else weights[i]
        _fill_query(request.queries.add(), query, own, f"queries[{i}]", f"weights[{i}]")
    given: Any = documents
    listed: Any = None
    if ids is not None:
        # An iterator is read once, here.
        listed = ids if isinstance(ids, np.ndarray) else list(arguments.items(ids, "ids", _IDS))
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


def _check_number(lists: Sequence[Any], what: str, queries: Sequence[Any]) -> None:
    if len(lists) != len(queries):
        raise ValueError(f"{len(lists)} {what} for {len(queries)} queries")


def _are_lists_of_ids(ids: Any) -> bool:
    """Says whether there is one list of candidates per query, and not one list that all queries share."""
    if isinstance(ids, np.ndarray):
        return ids.ndim == 2
    return any(one is None or isinstance(one, (list, tuple)) or getattr(one, "ndim", 0) == 1 for one in ids)


def _depth(documents: Any) -> int:
    """Returns the number of sequences around the first number or text: 1 for texts, 2 for texts per query, 3 for
    documents of vectors, 4 for documents of vectors per query."""
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
    """Returns a [tokens, dim] array as requests carry it. Its element types are those of maxsim.token_vectors."""
    matrix = pb.TokenMatrix()
    fill_matrix(matrix, tokens, name)
    return matrix


def fill_matrix(matrix: pb.TokenMatrix, tokens: VectorsLike, name: str) -> None:
    vectors = token_vectors(tokens, name=name)
    matrix.dtype = _DATA_TYPES[vectors.data_type]
    matrix.num_tokens = vectors.num_tokens
    matrix.dim = vectors.dim
    matrix.data = vectors.data.tobytes()


def _fill_query(message: pb.Query, query: Query, weights: Weights | None, name: str, weights_name: str) -> None:
    """Sets a query of token vectors, or of a text, which the server's encoder turns into vectors."""
    if isinstance(query, str):
        message.text = arguments.text(query, name)
    else:
        fill_matrix(message.tokens, query, name)
    if weights is not None:
        given: Any = weights.tolist() if isinstance(weights, np.ndarray) else weights
        listed = arguments.items(given, weights_name, "a list with a number for each token of the query")
        message.weights.extend(_weight(weight, weights_name, i) for i, weight in enumerate(listed))


def _weight(weight: Any, name: str, position: int) -> float:
    if type(weight) is float and math.isfinite(weight):
        return weight
    return arguments.real_number(weight, f"{name}[{position}]", "a finite number")


def fill_candidates(
    message: pb.Candidates, ids: Ids | None, documents: Documents | None, name: str | None = None
) -> None:
    """Sets the candidates: documents of the collection, documents that are sent with the call or, without both, the
    whole collection."""
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if documents is not None:
        _fill_documents(message.inline_documents, documents, name or "documents")
    elif ids is None:
        message.whole_collection.SetInParent()
    else:
        fill_ids(message, ids, name or "ids", "at least one candidate is needed (None is the whole collection)")


def _fill_documents(message: pb.InlineDocuments, documents: Documents, name: str) -> None:
    listed: list[Any] = list(arguments.items(documents, name, "a list of documents"))
    if not listed:
        raise ValueError(f"{name} is empty; at least one document is needed")
    texts = [document for document in listed if isinstance(document, str)]
    if texts and len(texts) != len(listed):
        raise ValueError(f"{name} holds texts and vectors; must be all of one kind")
    _extend(message.texts, texts, name, "Unicode text")
    if not texts:
        for i, document in enumerate(listed):
            fill_matrix(message.documents.add(), document, f"{name}[{i}]")


def fill_ids(message: _WithIds, ids: Ids, name: str, needed: str) -> None:
    """Sets ids. All must be of the first id's type. If the list is empty, `needed` says in the error what is
    missing."""
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    listed: list[Any] = list(arguments.items(ids, name, _IDS))
    if not listed:
        raise ValueError(f"{name} is empty; {needed}")
    # Lists may be long, and most hold only str or only int. map() finds this out in a fifth of the time of a loop.
    types = set(map(type, listed))
    if isinstance(listed[0], str):
        checked = listed
        if types != {str}:
            checked = _checked([i if isinstance(i, str) else None for i in listed], listed, name)
        _extend(message.string_ids.ids, checked, name, "Unicode text")
    else:
        checked = listed if types == {int} else _checked([arguments.integer(i) for i in listed], listed, name)
        _extend(message.int_ids.ids, checked, name, "an integer of 64 bits")


def _checked(values: list[Any], listed: list[Any], name: str) -> list[Any]:
    if None in values:
        position = values.index(None)
        shown = arguments.shown(listed[position])
        raise ValueError(f"{name}[{position}] is {shown}; ids must be all strings or all integers")
    return values


def _extend(field: Any, values: list[Any], name: str, accepted: str) -> None:
    """Appends to a repeated field. Looks at single values only if protobuf refuses the whole list."""
    try:
        field.extend(values)
    except ValueError as error:
        for i, value in enumerate(values):
            if not (arguments.is_unicode(value) if isinstance(value, str) else -(2**63) <= value < 2**63):
                raise ValueError(f"{name}[{i}] is {arguments.shown(value)}; must be {accepted}") from error
        raise
