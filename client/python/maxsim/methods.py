"""The rerank methods that Client and AsyncClient share. A Client returns the result, an AsyncClient a coroutine that
returns it."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from .filters import FilterLike
from .requests import (
    Documents,
    Ids,
    MissingPolicy,
    Priority,
    Query,
    RefinementOptions,
    Request,
    Weights,
    add_queries,
    collection_name,
    make_request,
)
from .v1 import rerank_pb2 as pb

OneT = TypeVar("OneT")  # Ranking, or a coroutine of it
ManyT = TypeVar("ManyT")  # list[Ranking], or a coroutine of it
ArgumentsT = ParamSpec("ArgumentsT")
AnswerT = TypeVar("AnswerT")


def in_collection(
    method: Callable[Concatenate[Any, str, ArgumentsT], AnswerT],
) -> Callable[Concatenate[Any, ArgumentsT], AnswerT]:
    """Turns a method of a client into one of ServedCollection, which fills in the argument `collection`. A coroutine
    function stays one."""

    def call(self: Any, /, *given: ArgumentsT.args, **named: ArgumentsT.kwargs) -> AnswerT:
        answer: AnswerT = getattr(self._client, method.__name__)(self.name or "", *given, **named)
        return answer

    async def awaited(self: Any, /, *given: Any, **named: Any) -> Any:
        answer: Any = call(self, *given, **named)
        return await answer

    made: Any = functools.wraps(method)(awaited if inspect.iscoroutinefunction(method) else call)
    signature = inspect.signature(method)
    kept = [one for name, one in signature.parameters.items() if name != "collection"]
    made.__signature__ = signature.replace(parameters=kept)
    wrapped: Callable[Concatenate[Any, ArgumentsT], AnswerT] = made
    return wrapped


class RerankMethods(abc.ABC, Generic[OneT, ManyT]):
    """The methods that call a server's Reranker."""

    @abc.abstractmethod
    def _rerank_one(self, request: pb.RerankRequest, timeout: float | None) -> OneT: ...

    @abc.abstractmethod
    def _rerank_many(self, request: pb.RerankRequest, timeout: float | None) -> ManyT: ...

    def rerank(
        self,
        collection: str | None,
        query: Query,
        ids: Ids | None = None,
        *,
        documents: Documents | None = None,
        weights: Weights | None = None,
        top_k: int = 10,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        payloads: bool = False,
        payload_fields: Sequence[str] = (),
        alignments: bool = False,
        normalize: bool = False,
        priority: Priority = "normal",
        missing_policy: MissingPolicy = "report",
        request_id: str = "",
        min_sequence: int | None = None,
        refinement: RefinementOptions | None = None,
        filter: FilterLike | None = None,
        timeout: float | None = None,
    ) -> OneT:
        """Ranks documents by their MaxSim with one query, best first.

        The query is a [tokens, dim] array (in any form that maxsim.token_vectors takes: NumPy, torch, DLPack, lists)
        or, if the server has an encoder, a text. The candidates are one of these: `ids`, documents of the collection,
        all strings or all integers; `documents`, which are sent with the call, [tokens, dim] arrays or texts; or,
        without both, the whole collection. With `documents`, `collection` may be None.

        weights: [query tokens], a factor for each token's best similarity. None means 1 for all.
        top_k: the number of documents to return; 0 for the server's limits.default_top_k.
        offset: the number of best documents to leave out. With 20 and top_k=10, the result has ranks 21 to 30.
        group_by: a keyword field of the collection. Documents that have the same value of it form a group, and
            Document.group is this value. The group with the best document comes first. `top_k` and `offset` count
            groups, `group_size` the documents of each. Documents without a value are left out.
        min_score: leaves out documents with lower scores. With `normalize`, it is compared with the normalised
            scores.
        payloads: fills Document.payload. payload_fields: fills it with only these top-level members; `payloads` is
            then not needed.
        alignments: fills Document.matches and Document.similarities.
        normalize: divides each score by the number of the query's tokens.
        priority: "low" lets other calls go first, "high" goes before them.
        missing_policy: if the collection does not hold an id, "report" lists the id in Ranking.missing, and "fail"
            raises NotFound.
        request_id: names the call in the server's log, at most 256 bytes.
        min_sequence: for a live collection, the sequence number of a write that the answer must reflect. It is in the
            answer to the write. If the server has not reached it yet, the error is Unavailable, which is retried.
        refinement: on a collection with codes, how many documents a scan of the codes selects for exact scoring, and
            whether the result must be proven. Ranking.refinement describes the outcome.
        filter: scores only candidates that match, by fields that the collection declares: a text such as 'lang = "en"
            and year >= 2020', a dict, or (F.lang == "en") & (F.year >= 2020) with maxsim.F.
        timeout: seconds above 0 that the call may take, retries included; None: the client's.

        ValueError: an argument is wrong; the message names it. MaxsimError: the server's error."""
        request = Request(
            collection,
            query,
            ids,
            documents=documents,
            weights=weights,
            top_k=top_k,
            offset=offset,
            min_score=min_score,
            group_by=group_by,
            group_size=group_size,
            payloads=payloads,
            payload_fields=payload_fields,
            alignments=alignments,
            normalize=normalize,
            priority=priority,
            missing_policy=missing_policy,
            request_id=request_id,
            min_sequence=min_sequence,
            refinement=refinement,
            filter=filter,
        )
        return self._rerank_one(request.to_message(), timeout)

    def rerank_many(
        self,
        collection: str | None,
        queries: Sequence[Query],
        ids: Ids | Sequence[Ids | None] | None = None,
        *,
        documents: Documents | Sequence[Documents] | None = None,
        weights: Sequence[Weights | None] | None = None,
        top_k: int = 10,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        payloads: bool = False,
        payload_fields: Sequence[str] = (),
        alignments: bool = False,
        normalize: bool = False,
        priority: Priority = "normal",
        missing_policy: MissingPolicy = "report",
        request_id: str = "",
        min_sequence: int | None = None,
        refinement: RefinementOptions | None = None,
        filter: FilterLike | None = None,
        timeout: float | None = None,
    ) -> ManyT:
        """Ranks documents for each of several queries. Returns one ranking per query, in their order.

        `ids` is one list that all queries share, or a list with one list per query, in which None stands for the
        whole collection. `documents` are [tokens, dim] arrays or texts that all queries share, or a list with a list
        of them per query. `weights` has one entry per query, [query tokens] or None. The other arguments are those of
        `rerank`.

        If the queries exceed a limit of the server for one request (limits.max_queries_per_request,
        max_request_bytes, max_request_work, max_alignments, max_answer_bytes), they are sent in several requests, one
        after another, and `timeout` applies to each. The client asks the server for its limits once. An error names
        the query by its index in `queries`, and no ranking is returned."""
        options = Request(
            collection,
            query="",  # the queries are added below
            top_k=top_k,
            offset=offset,
            min_score=min_score,
            group_by=group_by,
            group_size=group_size,
            payloads=payloads,
            payload_fields=payload_fields,
            alignments=alignments,
            normalize=normalize,
            priority=priority,
            missing_policy=missing_policy,
            request_id=request_id,
            min_sequence=min_sequence,
            refinement=refinement,
            filter=filter,
        )
        request = make_request(options)
        add_queries(request, queries, ids, documents, weights)
        return self._rerank_many(request, timeout)

    def collection(self, name: str | None) -> ServedCollection[OneT, ManyT]:
        """Returns an object for one collection of the server. Its calls need not name the collection. Does not call
        the server."""
        collection_name(name)  # Raises now for a wrong name.
        return ServedCollection(self, name)


class ServedCollection(Generic[OneT, ManyT]):
    """A collection as a client sees it: `client.collection("docs").rerank(query, ids=[...])`."""

    def __init__(self, client: RerankMethods[OneT, ManyT], name: str | None) -> None:
        self._client = client
        self.name = name

    rerank = in_collection(RerankMethods[OneT, ManyT].rerank)
    rerank_many = in_collection(RerankMethods[OneT, ManyT].rerank_many)
