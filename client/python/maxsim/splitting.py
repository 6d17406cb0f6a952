"""Splits a call that is too large for one request into several, and joins their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from . import errors
from .connection import MAX_MESSAGE_BYTES
from .documents import StoredDocuments, read_documents
from .ranking import Ranking, read_response
from .requests import Ids
from .v1 import documents_pb2
from .v1 import rerank_pb2 as pb
from .writes import make_get_request, request_bytes

MAX_GET_IDS = 1000  # limit of one request
# Bytes that a query's tag and length take in a RerankRequest, in addition to the query.
_FRAME_BYTES = 6
# Keys of limits on a sum over a request's queries or ids. If a request exceeds one, a request with fewer queries or ids
# may pass.
_TOTALS = (
    *("limits.max_queries_per_request", "limits.max_request_work"),
    *("limits.max_alignments", "limits.max_answer_bytes"),
)


class _Parts:
    """Splits a call's queries or ids into consecutive parts. The caller sends one request at a time, and passes its
    answer to `add` or its error to `refused`."""

    def __init__(self, num_items: int, max_items: int, name: str) -> None:
        """`name` is the name of the list in the server's errors, for example "queries"."""
        self._num_items, self._max_items, self._name = num_items, max_items, name
        self._first = self._end = 0  # the part that the last request sent

    def refused(self, error: errors.MaxsimError) -> None:
        """Halves this part and later ones if the server refused the part because of a limit on the sum over its items.
        Raises any other error, with its indices counted from the first item of the call."""
        size = self._end - self._first
        if size > 1 and error.code() == grpc.StatusCode.INVALID_ARGUMENT and error.limit_key in _TOTALS:
            self._max_items = size // 2
            return
        raise errors.shift_indices(error, self._name, self._first) from error.__cause__


class RerankParts(_Parts):
    """Splits a request by its queries. Each part has the request's options, and the candidates that all queries
    share."""

    def __init__(self, request: pb.RerankRequest, limits: pb.Limits | None) -> None:
        """`limits` are the server's. If it is None, the first request is the whole one."""
        num_queries = len(request.queries)
        super().__init__(num_queries, (limits and limits.max_queries_per_request) or num_queries, "queries")
        self._whole = request
        self._max_bytes = request_bytes(limits) if limits else MAX_MESSAGE_BYTES
        self._queries: Sequence[pb.Query] = []  # empty until the request is split
        self._sizes: list[int] = []
        self._rankings: list[Ranking] = []

    def next_request(self) -> pb.RerankRequest | None:
        """Returns the next request, or None after the last answer."""
        if self._first == self._num_items:
            return None
        if not self._queries:
            if self._num_items <= self._max_items and self._whole.ByteSize() <= self._max_bytes:
                self._end = self._num_items
                return self._whole
            self._take_queries()
        self._end = self._end_of_part()
        request = pb.RerankRequest()
        request.CopyFrom(self._whole)
        request.queries.extend(self._queries[self._first : self._end])
        return request

    def add(self, response: pb.RerankResponse) -> None:
        self._rankings.extend(read_response(response))
        self._first = self._end

    def rankings(self) -> list[Ranking]:
        return self._rankings

    def _take_queries(self) -> None:
        """Moves the queries out of the request, which then holds only what all parts share."""
        self._queries = list(self._whole.queries)
        self._sizes = [query.ByteSize() + _FRAME_BYTES for query in self._queries]
        del self._whole.queries[:]

    def _end_of_part(self) -> int:
        """Returns the end of the next part. A part has at least one query. If that query is too large, the server
        refuses it."""
        end = self._first + 1
        most = min(self._first + self._max_items, self._num_items)
        num_bytes = self._whole.ByteSize() + self._sizes[self._first]
        while end < most and num_bytes + self._sizes[end] <= self._max_bytes:
            num_bytes += self._sizes[end]
            end += 1
        return end


class GetParts(_Parts):
    """Splits the ids of a GetRequest."""

    def __init__(self, collection: str, ids: Ids, return_tokens: bool, min_sequence: int | None) -> None:
        self._shared = make_get_request(collection, ids, return_tokens, min_sequence)
        self._field = self._shared.WhichOneof("ids") or ""
        self._ids: list[Any] = list(getattr(self._shared, self._field).ids)
        self._shared.ClearField("string_ids")
        self._shared.ClearField("int_ids")
        super().__init__(len(self._ids), MAX_GET_IDS, "ids")
        self._answers: list[StoredDocuments] = []

    def next_request(self) -> documents_pb2.GetRequest | None:
        """Returns the next request, or None after the last answer."""
        if self._first == self._num_items:
            return None
        self._end = min(self._first + self._max_items, self._num_items)
        request = documents_pb2.GetRequest()
        request.CopyFrom(self._shared)
        getattr(request, self._field).ids.extend(self._ids[self._first : self._end])
        return request

    def add(self, response: documents_pb2.GetResponse) -> None:
        self._answers.append(read_documents(response))
        self._first = self._end

    def documents(self) -> StoredDocuments:
        """Returns all documents in the order of the ids, with the oldest generation and sequence of the answers."""
        return StoredDocuments(
            [document for answer in self._answers for document in answer.documents],
            [id for answer in self._answers for id in answer.missing],
            min(answer.generation for answer in self._answers),
            min(answer.sequence for answer in self._answers),
        )
