"""Scores the documents of a framework with a maxsimd. All adapters use this module."""

from __future__ import annotations

import asyncio
import numbers
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import arguments
from ..aio import AsyncClient
from ..client import Client
from ..filters import FilterLike, fill_filter
from ..ranking import Document, Ranking
from ..requests import Id, MissingPolicy
from ..v1 import rerank_pb2 as pb
from ..vectors import TokenVectors
from .encoders import LockedEncoder

# Limits of one call: within the defaults of the server's limits.max_inline_documents, limits.max_request_bytes and
# limits.max_top_k. Longer lists are scored in several calls, which does not change any score.
MAX_INLINE_DOCUMENTS = 1024
MAX_INLINE_BYTES = 32 << 20
MAX_IDS = 10000


class Scored(NamedTuple):
    """A document of a ranking."""

    position: int  # in the caller's list of documents
    score: float  # MaxSim


@dataclass(frozen=True)
class Candidates:
    """The documents to score. One attribute is set: texts, token vectors, or ids of documents in the collection."""

    texts: Sequence[str] | None = None
    vectors: Sequence[TokenVectors] | None = None
    ids: Sequence[Id] | None = None

    def count(self) -> int:
        """Returns the number of documents."""
        return len(self.ids or self.vectors or self.texts or ())


class Scorer:
    """Scores a framework's documents. Thread-safe. Connects at its first call.

    `encoder` (see LockedEncoder) turns texts into vectors; if it is None, the server does. A copy or a pickle of a
    Scorer makes its own connections."""

    def __init__(
        self,
        target: str | None = None,
        *,
        collection: str = "",
        encoder: Any = None,
        missing_policy: MissingPolicy = "fail",
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        """`target` and `client_options`: those of maxsim.Client. `collection`: the collection that holds the ids, and
        to whose storage type the documents that are sent are rounded; if it is "", these are scored as float16.
        `missing_policy`: if the collection does not hold an id, "fail" raises and "report" leaves the document
        out."""
        self._target = target
        self._collection = collection
        self._encoder = None if encoder is None else LockedEncoder(encoder)
        self._missing_policy: MissingPolicy = missing_policy
        self._client_options = dict(client_options or {})
        self._connect()

    def _connect(self) -> None:
        self._lock = threading.Lock()
        self._client: Client | None = None
        # A channel of grpc.aio belongs to the event loop that created it.
        self._async_clients: dict[asyncio.AbstractEventLoop, AsyncClient] = {}

    def __getstate__(self) -> dict[str, Any]:
        own = ("_lock", "_client", "_async_clients")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()

    @property
    def collection(self) -> str:
        return self._collection

    @property
    def client(self) -> Client:
        """The connection for blocking calls."""
        with self._lock:
            if self._client is None:
                self._client = Client(*self._targets(), **self._client_options)
            return self._client

    @property
    def async_client(self) -> AsyncClient:
        """Returns the client for calls in the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._async_clients:
                # Drops the clients of event loops that have ended. Otherwise clients would accumulate in a program that
                # calls asyncio.run for each question.
                self._async_clients = {one: it for one, it in self._async_clients.items() if not one.is_closed()}
                self._async_clients[loop] = AsyncClient(*self._targets(), **self._client_options)
            return self._async_clients[loop]

    def _targets(self) -> list[str]:
        return [] if self._target is None else [self._target]

    def close(self) -> None:
        """Closes the connection for blocking calls. A later call connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Closes every connection that can be closed from this event loop."""
        self.close()
        with self._lock:
            client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def rank(self, query: Any, candidates: Candidates, top_k: int | None = None) -> list[Scored]:
        """Returns the best `top_k` candidates, or all if it is None, best first. `query`: a text, or token vectors
        [tokens, dim].

        If candidates.ids has an id twice, both candidates are ranked, with the same score. Raises maxsim's errors, and
        ValueError."""
        if candidates.count() == 0:
            return []
        query, candidates = self._encode(query, candidates)
        parts = [
            (positions, self.client.rerank(self._collection, query, **self._arguments(part, top_k)))
            for positions, part in split(candidates)
        ]
        return merge(parts, candidates, top_k)

    async def rank_async(self, query: Any, candidates: Candidates, top_k: int | None = None) -> list[Scored]:
        """Does what rank does. A user's encoder runs in another thread, so that it does not block the event loop."""
        if candidates.count() == 0:
            return []
        if self._encoder is not None:
            query, candidates = await asyncio.to_thread(self._encode, query, candidates)
        client = self.async_client
        parts = [
            (positions, await client.rerank(self._collection, query, **self._arguments(part, top_k)))
            for positions, part in split(candidates)
        ]
        return merge(parts, candidates, top_k)

    def find(self, query: Any, top_k: int, filter: FilterLike | None = None) -> list[Document]:
        """Returns the best documents of the collection with their payloads, best first. With `filter`, only documents
        that match it. `query`: a text, or token vectors."""
        return self.client.rerank(self._collection, self._encoded(query), **_finding(top_k, filter)).documents

    async def find_async(self, query: Any, top_k: int, filter: FilterLike | None = None) -> list[Document]:
        """Does what find does. A user's encoder runs in another thread, so that it does not block the event loop."""
        if self._encoder is not None:
            query = await asyncio.to_thread(self._encoded, query)
        return (await self.async_client.rerank(self._collection, query, **_finding(top_k, filter))).documents

    def search(
        self,
        queries: Sequence[Any],
        top_k: int,
        subsets: Sequence[Sequence[Any]] | None = None,
        filter: FilterLike | None = None,
    ) -> list[list[tuple[Id, float]]]:
        """Returns ids and scores of the best documents of the collection for each query, best first. `queries`: texts
        or token vectors. `subsets`: for each query, the ids to search; for an empty list the result is empty. `filter`:
        only documents that match it are searched."""
        queries = [self._encoded(query) for query in queries]
        found: list[list[tuple[Id, float]]] = [[] for _ in queries]
        asked = [i for i in range(len(queries)) if subsets is None or subsets[i]]
        if not asked:
            return found
        rankings = self.client.rerank_many(
            self._collection,
            [queries[i] for i in asked],
            None if subsets is None else [list(subsets[i]) for i in asked],
            top_k=top_k,
            missing_policy=self._missing_policy,
            filter=filter,
        )
        for i, ranking in zip(asked, rankings):
            found[i] = [(one.id, one.score) for one in ranking if one.id is not None]
        return found

    def _encode(self, query: Any, candidates: Candidates) -> tuple[Any, Candidates]:
        if self._encoder is None:
            return query, candidates
        query = self._encoded(query)
        if candidates.texts:
            candidates = Candidates(vectors=self._encoder.documents(candidates.texts))
        return query, candidates

    def _encoded(self, query: Any) -> Any:
        return self._encoder.query(query) if self._encoder is not None and isinstance(query, str) else query

    def _arguments(self, part: Candidates, top_k: int | None) -> dict[str, Any]:
        """Returns the arguments of Client.rerank for one part of the candidates."""
        return {
            "ids": part.ids,
            "documents": part.vectors if part.texts is None else part.texts,
            "top_k": part.count() if top_k is None else min(top_k, part.count()),
            "missing_policy": self._missing_policy,
        }


class HasScorer:
    """The base class of a framework's component that has a Scorer."""

    _scorer: Scorer

    def close(self) -> None:
        """Closes the connection. A later call connects again."""
        self._scorer.close()

    async def aclose(self) -> None:
        """Also closes the connection of this event loop."""
        await self._scorer.aclose()


def _finding(top_k: int, filter: FilterLike | None) -> dict[str, Any]:
    """Returns the arguments of Client.rerank that search the whole collection."""
    return {"top_k": top_k, "payloads": True, "filter": filter}


def text_and_metadata(found: Document, text_key: str | None) -> tuple[str, dict[str, Any]]:
    """Returns the text in a document's payload and the payload's other members. If `text_key` is None, returns no
    text and all members. ValueError, with the document's id, if the payload has no such text."""
    metadata = dict(found.payload or {})
    if text_key is None:
        return "", metadata
    text = metadata.pop(text_key, None)
    if not isinstance(text, str):
        raise ValueError(
            f"the payload of the document {found.id!r} has {arguments.shown(text)} as {text_key!r}; text_key names the "
            "member of payloads that is the text (None: documents are returned without text)"
        )
    return text, metadata


def check_filter(filter: FilterLike | None) -> None:
    """Raises ValueError if the value cannot be sent as a filter."""
    fill_filter(pb.RerankRequest(), filter)


def split(candidates: Candidates) -> Iterator[tuple[list[int], Candidates]]:
    """Yields parts of the candidates, each small enough for one call, with the positions of its candidates in the whole
    list. An id that occurs twice is yielded once, with its first position."""
    if candidates.ids is not None:
        first = {id: position for position, id in reversed(list(enumerate(candidates.ids)))}
        positions = sorted(first.values())
        for start in range(0, len(positions), MAX_IDS):
            part = positions[start : start + MAX_IDS]
            yield part, Candidates(ids=[candidates.ids[position] for position in part])
    elif candidates.vectors is not None:
        for part in _parts([vectors.data.nbytes for vectors in candidates.vectors]):
            yield part, Candidates(vectors=[candidates.vectors[position] for position in part])
    elif candidates.texts is not None:
        for part in _parts([len(text.encode()) for text in candidates.texts]):
            yield part, Candidates(texts=[candidates.texts[position] for position in part])


def _parts(sizes: list[int]) -> Iterator[list[int]]:
    """Yields the positions of `sizes` (in bytes) in parts within MAX_INLINE_DOCUMENTS and MAX_INLINE_BYTES. A
    document that exceeds the limit by itself forms its own part, which the server may refuse."""
    part: list[int] = []
    num_bytes = 0
    for position, size in enumerate(sizes):
        if part and (len(part) == MAX_INLINE_DOCUMENTS or num_bytes + size > MAX_INLINE_BYTES):
            yield part
            part, num_bytes = [], 0
        part.append(position)
        num_bytes += size
    if part:
        yield part


def merge(parts: list[tuple[list[int], Ranking]], candidates: Candidates, top_k: int | None) -> list[Scored]:
    """Merges the rankings of the parts of a query's candidates into one, in the server's rank order: descending
    scores, and ascending positions for equal scores. -0 equals 0."""
    scored = [Scored(positions[one.position], one.score) for positions, ranking in parts for one in ranking]
    if candidates.ids is not None:
        same: dict[Id, list[int]] = {}
        for position, id in enumerate(candidates.ids):
            same.setdefault(id, []).append(position)
        scored = [Scored(position, score) for first, score in scored for position in same[candidates.ids[first]]]
    scored.sort(key=lambda one: (-one.score, one.position))
    return scored if top_k is None else scored[:top_k]


def check_ids(collection: str, id_key: str | None, own_ids: bool) -> None:
    """Raises ValueError if both `id_key` and `own_ids` are given, or if one of them is given without a collection."""
    if id_key is not None and own_ids:
        raise ValueError("id_key and own_ids both say how to find a document's id: give only one of them")
    if (id_key is not None or own_ids) and not collection:
        raise ValueError("collection is missing: the documents' ids are those of a collection")


def id_in(metadata: Mapping[str, Any] | None, key: str, position: int) -> Id:
    """Returns the id in a document's metadata. Raises ValueError, with the document's position, if there is none."""
    value = (metadata or {}).get(key)
    return as_id(value, f"the metadata {key!r} of documents[{position}]")


def as_id(value: Any, name: str) -> Id:
    """Returns the value as an id that maxsimd accepts. Otherwise raises a ValueError that begins with `name`."""
    if isinstance(value, str):
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"{name} is {value!r}; an id is a string or an integer")
