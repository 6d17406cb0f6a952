"""The one place that makes messages: requests of arrays, texts and ids. Both clients send what is made here."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .v1 import rerank_pb2 as pb
from .vectors import VectorsLike, token_vectors

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
        return make_request(
            self.collection,
            [query_message(self.query, self.weights)],
            candidates=candidates(self.ids, self.documents),
            top_k=self.top_k,
            payloads=self.payloads,
            payload_fields=self.payload_fields,
            alignments=self.alignments,
            normalize=self.normalize,
            priority=self.priority,
            missing_policy=self.missing_policy,
            request_id=self.request_id,
        )


def make_request(
    collection: str | None,
    queries: Sequence[pb.Query],
    *,
    candidates: pb.Candidates | None,
    top_k: int,
    payloads: bool,
    payload_fields: Sequence[str],
    alignments: bool,
    normalize: bool,
    priority: str,
    missing_policy: str,
    request_id: str,
) -> pb.RerankRequest:
    """Returns a request of queries that are messages already. `candidates` are those of queries without their own."""
    if isinstance(payload_fields, str):
        raise ValueError("payload_fields is a list of names; this is one string")
    request = pb.RerankRequest(
        request_id=request_id,
        collection=collection or "",
        queries=queries,
        top_k=top_k,
        missing_policy=_named(missing_policy, "missing_policy", _MISSING_POLICIES),
        priority=_named(priority, "priority", _PRIORITIES),
        return_payloads=payloads,
        return_alignments=alignments,
        payload_fields=payload_fields,
        normalize=normalize,
    )
    if candidates is not None:
        request.candidates.CopyFrom(candidates)
    return request


def token_matrix(tokens: VectorsLike, name: str = "tokens") -> pb.TokenMatrix:
    """Returns a [tokens, dim] array as the wire carries it. Element types are those of maxsim.token_vectors."""
    vectors = token_vectors(tokens, name=name)
    return pb.TokenMatrix(
        dtype=_DATA_TYPES[vectors.data_type],
        num_tokens=vectors.num_tokens,
        dim=vectors.dim,
        data=vectors.data.tobytes(),
    )


def query_message(query: Query, weights: Weights | None = None, name: str = "query") -> pb.Query:
    """Returns a query of token vectors, or of a text, which the server's encoder turns into vectors."""
    if isinstance(query, str):
        return pb.Query(text=query, weights=weights)
    return pb.Query(tokens=token_matrix(query, name), weights=weights)


def queries_and_candidates(
    queries: Sequence[Query],
    ids: Ids | Sequence[Ids | None] | None,
    documents: Documents | Sequence[Documents] | None,
    weights: Sequence[Weights | None] | None,
) -> tuple[list[pb.Query], pb.Candidates | None]:
    """Returns the messages of several queries, and the candidates that they share: None where each has its own."""
    if isinstance(queries, str):
        raise ValueError("queries is a list of queries; this is one string")
    number = len(queries)
    messages = []
    _check_number(weights, "lists of weights", number)
    for i, query in enumerate(queries):
        messages.append(query_message(query, None if weights is None else weights[i], f"queries[{i}]"))
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    own: list[pb.Candidates] | None = None
    if ids is not None:
        # An iterator is read once, here.
        listed: Any = ids if isinstance(ids, (str, bytes, np.ndarray)) else list(ids)
        if _are_lists_of_ids(listed):
            own = [candidates(one, None, f"ids[{i}]") for i, one in enumerate(listed)]
        ids = listed
    elif documents is not None and _depth(documents) in (2, 4):
        own = [candidates(None, one, f"documents[{i}]") for i, one in enumerate(documents)]
    if own is None:
        return messages, candidates(ids, documents)  # type: ignore[arg-type]
    _check_number(own, "lists of ids" if ids is not None else "lists of documents", number)
    for message, of_query in zip(messages, own):
        message.candidates.CopyFrom(of_query)
    return messages, None


def _check_number(lists: Sequence[Any] | None, what: str, num_queries: int) -> None:
    if lists is not None and len(lists) != num_queries:
        raise ValueError(f"{len(lists)} {what} for {num_queries} queries")


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
    dimensions = getattr(documents, "ndim", None)
    if dimensions is not None:
        return int(dimensions)
    if hasattr(documents, "data_type"):
        return 2  # TokenVectors
    if not isinstance(documents, Sequence):
        return 0
    return 1 + max((_depth(one) for one in documents[:1]), default=0)


def candidates(ids: Ids | None, documents: Documents | None, name: str | None = None) -> pb.Candidates:
    """Returns the candidates of a request: documents of the collection, documents that come with it, or, with neither,
    the whole collection."""
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if documents is not None:
        return pb.Candidates(inline_documents=_inline_documents(documents, name or "documents"))
    if ids is None:
        return pb.Candidates(whole_collection=pb.WholeCollection())
    listed = id_list(ids, name or "ids")
    if isinstance(listed, pb.StringIds):
        return pb.Candidates(string_ids=listed)
    return pb.Candidates(int_ids=listed)


def _inline_documents(documents: Documents, name: str) -> pb.InlineDocuments:
    if isinstance(documents, str):
        raise ValueError(f"{name} is a list of documents; this is one string")
    listed = list(documents)
    if not listed:
        raise ValueError(f"{name} is empty; at least one document is needed")
    texts = [document for document in listed if isinstance(document, str)]
    if texts and len(texts) != len(listed):
        raise ValueError(f"{name} holds texts and vectors; it is all of one kind")
    if texts:
        return pb.InlineDocuments(texts=texts)
    return pb.InlineDocuments(documents=[token_matrix(document, f"{name}[{i}]") for i, document in enumerate(listed)])


def id_list(ids: Ids, name: str = "ids") -> pb.StringIds | pb.IntIds:
    """Returns `ids` as the wire carries them; the first one decides which kind all must be of."""
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    if isinstance(ids, (str, bytes)):
        raise ValueError(f"{name} is a list of ids; this is one string")
    listed: list[Any] = list(ids)
    if not listed:
        raise ValueError(f"{name} is empty; at least one candidate is needed (None is the whole collection)")
    # Lists are long, and str and int are what they mostly hold.
    if isinstance(listed[0], str):
        strings = [i if isinstance(i, str) else None for i in listed]
        _check_kinds(strings, listed, name)
        return pb.StringIds(ids=strings)  # type: ignore[arg-type]
    integers = [i if type(i) is int else _integer(i) for i in listed]
    _check_kinds(integers, listed, name)
    return pb.IntIds(ids=integers)  # type: ignore[arg-type]


def _check_kinds(values: Sequence[Id | None], listed: list[Any], name: str) -> None:
    if None in values:
        position = values.index(None)
        raise ValueError(f"{name}[{position}] is {listed[position]!r}; ids must be all strings or all integers")


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
