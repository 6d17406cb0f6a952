"""The methods that Client and AsyncClient share, except the rerank methods. Each makes one or more calls to a
server's Reranker, Admin or Documents. A Client returns the result, an AsyncClient a coroutine that returns it."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from . import arguments, errors
from .admin_requests import IdType, Storage, make_create_request, make_load_request, make_snapshot_request
from .base_client import BaseClient, ResultT, Step, Steps
from .documents import StoredDocuments, WriteResults, read_facets
from .filters import FilterLike
from .methods import ManyT, OneT, RerankMethods
from .ranking import Ranking, read_explanation, read_response
from .requests import Id, Ids, Query, Weights, make_explain_request
from .splitting import GetParts, RerankParts
from .v1 import admin_pb2
from .v1 import rerank_pb2 as pb
from .writes import DeleteAnswers, make_count_request, make_facets_request

# The types that methods return. Each variable names a result: in the comment after it, or else in its own name (InfoT:
# Info). In a Client the variable is the type of that result, in an AsyncClient a coroutine that returns the result.
InfoT = TypeVar("InfoT")
ListT = TypeVar("ListT")  # list[CollectionInfo]
CollectionT = TypeVar("CollectionT")  # CollectionInfo
BoolT = TypeVar("BoolT")
NoneT = TypeVar("NoneT")
IntT = TypeVar("IntT")
WriteResultsT = TypeVar("WriteResultsT")
StoredDocumentsT = TypeVar("StoredDocumentsT")
FacetsT = TypeVar("FacetsT")
ExplanationT = TypeVar("ExplanationT")

ClientT = TypeVar("ClientT")


class ClientMethods(
    RerankMethods[OneT, ManyT],
    BaseClient,
    Generic[
        OneT,
        ManyT,
        InfoT,
        ListT,
        CollectionT,
        BoolT,
        NoneT,
        IntT,
        WriteResultsT,
        StoredDocumentsT,
        FacetsT,
        ExplanationT,
    ],
):
    """The methods that call a server, except streams and upserts."""

    @abc.abstractmethod
    def _run(self, steps: Steps[ResultT]) -> Any:
        """Makes the calls that `steps` yields, and returns its result."""

    def _ask(
        self,
        method: str,
        make: Callable[[], Any],
        timeout: float | None,
        read: Callable[[Any], Any] = lambda answer: answer,
        once: bool = True,
    ) -> Any:
        """Makes one call, and returns `read(answer)`. `make` returns the request, and is called only when the call is
        made."""

        def steps() -> Steps[Any]:
            return read((yield Step(method, make(), timeout, once)))

        return self._run(steps())

    def info(self, *, timeout: float | None = None) -> InfoT:
        """Returns version, limits, devices and collections. For a live collection, `live` is set: the sequence number
        of the last write that requests see, the size of the changes since the last compaction, and the reason if
        nothing can be written."""
        return self._ask("reranker.GetInfo", pb.GetInfoRequest, timeout, once=False)

    def collections(self, *, timeout: float | None = None) -> ListT:
        """Lists collections through Admin, which may require an administrator's token; `info().collections` requires
        none."""
        return self._ask(
            "admin.ListCollections",
            admin_pb2.ListCollectionsRequest,
            timeout,
            lambda answer: list(answer.collections),
            once=False,
        )

    # Each of the following methods acts on one server: if `target` names several, use a client whose target is that
    # server. If the server has `auth.admin_tokens_file`, they need a token from it. They are not retried, because a
    # second attempt after a lost answer would conflict with the first.

    def load(
        self,
        name: str,
        path: str,
        *,
        residency: str = "auto",
        replicate: bool = False,
        live: bool = False,
        timeout: float | None = None,
    ) -> CollectionT:
        """Serves the folder `path`, on the server's machine, as the collection `name`; returns when it is loaded.
        `residency` is "auto", "gpu", "host" or "disk". `replicate` copies it to every device. With `live`, the
        collection accepts writes, and the server creates its log of writes if there is none. A collection with a log
        is always live."""
        return self._ask(
            "admin.LoadCollection",
            lambda: make_load_request(name, path, residency, replicate, live),
            timeout,
            lambda answer: answer.collection,
        )

    def reload(self, name: str, *, generation: int = 0, timeout: float | None = None) -> BoolT:
        """Loads and serves the published generation, or the one with the number `generation`: the collection's folder
        keeps the one before the published one (`CollectionInfo.previous_generation`). A server that has noted such a
        generation serves it again after a restart. Returns False if the server was already serving it."""
        return self._ask(
            "admin.ReloadCollection",
            lambda: admin_pb2.ReloadCollectionRequest(
                name=arguments.text(name, "name"),
                generation=arguments.whole_number(generation, "generation", 0, (1 << 63) - 2),
            ),
            timeout,
            lambda answer: answer.changed,
        )

    def unload(self, name: str, *, timeout: float | None = None) -> NoneT:
        """Stops serving a collection. Its memory is freed when the last call that uses it has been answered."""
        return self._ask(
            "admin.UnloadCollection",
            lambda: admin_pb2.UnloadCollectionRequest(name=arguments.text(name, "name")),
            timeout,
            lambda answer: None,
        )

    def create_collection(
        self,
        name: str,
        dim: int,
        *,
        path: str = "",
        storage: Storage = "f16",
        id_type: IdType = "string",
        residency: str = "auto",
        replicate: bool = False,
        encoder: pb.EncoderInfo | None = None,
        codes: int = 0,
        code_factors: bool = False,
        fields: str = "",
        timeout: float | None = None,
    ) -> CollectionT:
        """Creates an empty live collection of vectors with `dim` values, and serves it.

        path: the folder to create on the server's machine. With "", it is the folder `name` in the server's allowed
        root, of which there must be only one.
        storage: "f16", "bf16", "f32", or "i8", which takes half the space of "f16". id_type: "string" or "int64".
        residency and replicate: as for `load`. encoder: the model that makes the vectors, in the form of
        info().encoder. If it is given, the server encodes text for this collection only with that encoder.
        codes: the bits per value (1, 2 or 4) of the compressed codes that are stored in addition to the vectors, and
        that searches scan first; 0 for no codes.
        code_factors: with codes, also stores the length of each vector, for models whose vectors differ in length.
        fields: values of payloads that requests can filter by, such as "lang:keyword=meta.lang,year:integer", in the
        form that CollectionWriter takes.

        AlreadyExists: the server already serves a collection of this name, or the folder holds a collection.
        PermissionDenied: the folder is in no allowed root."""
        return self._ask(
            "admin.CreateCollection",
            lambda: make_create_request(
                name, dim, path, storage, id_type, residency, replicate, encoder, codes, code_factors, fields
            ),
            timeout,
            lambda answer: answer.collection,
        )

    def compact_collection(self, name: str, *, timeout: float | None = None) -> BoolT:
        """Compacts a live collection: writes it with all changes into its next generation (version of its files), and
        serves that. Returns False if there were no changes. The server also compacts by itself."""
        return self._ask(
            "admin.CompactCollection",
            lambda: admin_pb2.CompactCollectionRequest(name=arguments.text(name, "name")),
            timeout,
            lambda answer: answer.changed,
        )

    def snapshot_collection(self, name: str, path: str, *, timeout: float | None = None) -> IntT:
        """Copies the present state of a live collection to the folder `path` on the server's machine. The folder must
        not exist. Returns the sequence number of the last write that the copy holds."""
        return self._ask(
            "admin.SnapshotCollection",
            lambda: make_snapshot_request(name, path),
            timeout,
            lambda answer: answer.sequence,
        )

    def delete(
        self, collection: str, ids: Ids, *, version: int | None = None, timeout: float | None = None
    ) -> WriteResultsT:
        """Deletes documents from a live collection. When it returns, no later request sees them.

        `ids` are all strings or all integers. An id that the collection does not hold has the outcome "not_found",
        which is no error. With a `version` (1 or more), a document whose version is the same or newer stays (outcome
        "stale"), and a later upsert with an older version is stale. Retries, `timeout` and errors are those of
        `upsert`."""

        def steps() -> Steps[WriteResults]:
            answers = DeleteAnswers(collection, ids, version)
            for request in answers.requests:
                try:
                    answers.add((yield Step("documents.Delete", request, timeout)))
                except errors.MaxsimError as error:
                    raise answers.located(error) from error.__cause__
            return answers.results()

        return self._run(steps())

    def get(
        self,
        collection: str,
        ids: Ids,
        *,
        return_tokens: bool = False,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> StoredDocumentsT:
        """Reads documents of any collection, live or not: payloads, versions and, with return_tokens=True, token
        vectors as float32 [tokens, dim]. The vectors of an i8 collection are rotated and quantised, so they differ
        from those that were written. `.missing` has the ids that the collection does not hold. `min_sequence` is that
        of `rerank`.

        More than 1,000 ids, or documents that are too large for one answer (limits.max_answer_bytes), are read in
        several requests, and `timeout` applies to each of these. Other clients may write between them. The result's
        `generation` and `sequence` are the oldest of these requests."""

        def steps() -> Steps[StoredDocuments]:
            parts = GetParts(collection, ids, return_tokens, min_sequence)
            while (request := parts.next_request()) is not None:
                try:
                    parts.add((yield Step("documents.Get", request, timeout)))
                except errors.MaxsimError as error:
                    parts.refused(error)
            return parts.documents()

        return self._run(steps())

    def count(
        self,
        collection: str,
        *,
        filter: FilterLike | None = None,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> IntT:
        """Counts the documents of a collection, or with `filter` those that match it. `filter` and `min_sequence` are
        those of `rerank`. The count is the number of documents that a rerank of the whole collection can return."""
        return self._ask(
            "documents.Count",
            lambda: make_count_request(collection, filter, min_sequence),
            timeout,
            lambda answer: answer.count,
            once=False,
        )

    def facets(
        self,
        collection: str,
        field: str,
        *,
        filter: FilterLike | None = None,
        limit: int = 10,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> FacetsT:
        """Counts the documents that match `filter`, or all if it is None, by their values of a keyword or keywords
        field. Returns the `limit` values with the highest counts; `limit` is at most 65,536. ResourceExhausted, with
        `retry_after`: the server is busy with other calls of this kind."""
        return self._ask(
            "documents.Facets",
            lambda: make_facets_request(collection, field, filter, limit, min_sequence),
            timeout,
            read_facets,
            once=False,
        )

    def explain(
        self,
        collection: str,
        query: Query,
        id: Id,
        *,
        weights: Weights | None = None,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> ExplanationT:
        """Returns the similarity of each token of the query with each token of one document. These explain the
        document's score. `query`, `weights` and `min_sequence` are those of `rerank`.

        NotFound: the collection does not hold the id. InvalidArgument: query and document have more than 1,048,576
        similarities. ResourceExhausted, with `retry_after`: the server is busy with other calls of this kind."""
        return self._ask(
            "reranker.Explain",
            lambda: make_explain_request(collection, query, id, weights, min_sequence),
            timeout,
            read_explanation,
            once=False,
        )

    def _rerank_one(self, request: pb.RerankRequest, timeout: float | None) -> OneT:
        return self._ask(
            "reranker.Rerank", lambda: request, timeout, lambda answer: read_response(answer)[0], once=False
        )

    def _rerank_many(self, request: pb.RerankRequest, timeout: float | None) -> ManyT:
        def steps() -> Steps[list[Ranking]]:
            limits = (yield from self._limits_steps(timeout)) if len(request.queries) > 1 else None
            parts = RerankParts(request, limits)
            while (part := parts.next_request()) is not None:
                try:
                    parts.add((yield Step("reranker.Rerank", part, timeout)))
                except errors.MaxsimError as error:
                    parts.refused(error)
            return parts.rankings()

        return self._run(steps())


def with_coroutine_functions(client: type[ClientT]) -> type[ClientT]:
    """Turns the inherited public methods of an asyncio class, which return coroutines, into functions that look like
    those of `async def`, because frameworks ask inspect.iscoroutinefunction. Their arguments are checked when they
    are awaited."""
    for base in client.__mro__[1:]:
        for name, method in vars(base).items():
            if name.startswith("_") or name in vars(client) or _is_asynchronous(method):
                continue
            if inspect.isfunction(method):
                setattr(client, name, _coroutine_function(method))
    return client


def _is_asynchronous(method: object) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _coroutine_function(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*given: Any, **named: Any) -> Any:
        return await method(*given, **named)

    return call
