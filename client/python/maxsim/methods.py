"""The rerank methods that Client and AsyncClient share, with their arguments. A Client returns what an AsyncClient
returns a coroutine of."""

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
    """Makes a method of ServedCollection from a client's: without the argument `collection`, which is its own name. A
    coroutine function gives a coroutine function."""

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
    """What a client asks of a server's Reranker."""

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

        The query is a [tokens, dim] array (what maxsim.token_vectors takes: NumPy, torch, DLPack, lists), or a text
        where the server has an encoder. Candidates are the collection's documents `ids`, all strings or all integers;
        `documents` that come with the call, [tokens, dim] arrays or texts; or, with neither, the whole collection.
        `collection` may be None with `documents`.

        weights: [query tokens], a factor for each token's best similarity; none is 1.
        top_k: how many documents come back, 0 for the server's limits.default_top_k.
        offset: how many of the best documents to leave out: with 20 and top_k=10, ranks 21 to 30 come back.
        group_by: a keyword field of the collection. Documents come in groups of one value of it, the group with the best
            document first; Document.group is the value. `top_k` and `offset` count groups, `group_size` the documents of
            each. Documents without a value are left out.
        min_score: leave out documents with lower scores, as the ranking has them (with `normalize`, the means).
        payloads: fill Document.payload. payload_fields: these top-level members of it alone, without `payloads` too.
        alignments: fill Document.matches and Document.similarities.
        normalize: divide each score by the number of the query's tokens.
        priority: "low" lets other calls go first, "high" goes before them.
        missing_policy: "report" lists ids that the collection lacks in Ranking.missing, "fail" raises NotFound.
        request_id: names the call in the server's log, at most 256 bytes.
        min_sequence: of a live collection, the sequence number of a write that the answer must have seen, as the answer
            to the write has it; where the collection has not come so far, Unavailable, which is retried.
        refinement: on a collection with codes, how many documents a scan chooses to be scored, and whether the answer is
            to be proven; Ranking.refinement says what came of it.
        filter: score only the candidates that match, of the fields that the collection declares: a text such as
            'lang = "en" and year >= 2020', the same as a dict, or (F.lang == "en") & (F.year >= 2020) with maxsim.F.
        timeout: seconds that the call may take, above 0, retries included; None: the client's.

        ValueError names an argument that is wrong, a MaxsimError says what the server said."""
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
        """Ranks documents for each of several queries; returns a ranking per query, in their order.

        `ids` is one list that all queries share, or a list with a list for each query (None in it: the whole
        collection). `documents` are [tokens, dim] arrays or texts that all share, or a list with a list of them for
        each query. `weights` has an entry a query, each [query tokens] or None. The other arguments are those of
        `rerank`.

        Queries that exceed a limit of the server for one request (limits.max_queries_per_request, max_request_bytes,
        max_request_work, max_alignments, max_answer_bytes) are sent in several requests, one after another; each may
        take `timeout`. The client asks the server for its limits once. An error names the query by its index in
        `queries`, and no ranking is returned."""
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
        """Returns one collection of the server, whose calls need not name it. Asks the server nothing."""
        collection_name(name)  # Raises now for a wrong name.
        return ServedCollection(self, name)


class ServedCollection(Generic[OneT, ManyT]):
    """A collection as a client sees it: `client.collection("docs").rerank(query, ids=[...])`."""

    def __init__(self, client: RerankMethods[OneT, ManyT], name: str | None) -> None:
        self._client = client
        self.name = name

    rerank = in_collection(RerankMethods[OneT, ManyT].rerank)
    rerank_many = in_collection(RerankMethods[OneT, ManyT].rerank_many)
