"""Makes the requests of the Documents service: divides documents and ids among requests, and joins the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import arguments, errors
from .connection import MAX_MESSAGE_BYTES
from .documents import DeleteSummary, DocumentLike, NewDocument, WriteResult, WriteResults, write_result
from .filters import FilterLike, fill_filter
from .requests import Ids, fill_ids, fill_matrix
from .v1 import documents_pb2
from .v1 import rerank_pb2 as pb

MAX_UPSERT_DOCUMENTS = 10_000  # of one request
MAX_FACET_VALUES = 65_536  # of one answer
DEFAULT_BATCH_DOCUMENTS = 1000
DEFAULT_BATCH_BYTES = 4 << 20
MAX_DELETE_IDS = 10_000  # per request; fewer than the server accepts, so that long ids fit into a message
# Bytes that a document's tag and length take in an UpsertRequest, in addition to the document.
_FRAME_BYTES = 6
_DOCUMENT_OF_REQUEST = re.compile(r"requests\[(\d+)\]\.documents\[(\d+)\]")
_NAMES = ("id", "tokens", "text", "payload", "version")
_ACCEPTED = "a maxsim.NewDocument, a mapping with its names, or a tuple (id, tokens or text[, payload])"


class UpsertBatches:
    """Turns documents into messages, and puts them into requests of at most `max_documents` and about
    `batch_bytes`."""

    def __init__(
        self, collection: str, max_documents: int = MAX_UPSERT_DOCUMENTS, batch_bytes: int | None = None
    ) -> None:
        self._collection = required_collection(collection)
        self._max_documents = max_documents
        self._batch_bytes = batch_bytes
        self._num_documents = 0  # in all requests
        self._sizes: list[int] = []  # number of documents in each finished request
        self._start()

    def convert(self, document: DocumentLike) -> documents_pb2.Document:
        """Returns the message of the next document. ValueError names the error, and the document by its index in the
        whole call."""
        message = documents_pb2.Document()
        _fill_document(message, document, f"documents[{self._num_documents}]")
        self._num_documents += 1
        return message

    def put(self, message: documents_pb2.Document, max_bytes: int) -> documents_pb2.UpsertRequest | None:
        """Adds the message that `convert` has just returned. If it does not fit into the current request, returns
        that request. A request has at most `max_bytes`, the server's limit. ValueError: the document alone is
        larger."""
        size = message.ByteSize() + _FRAME_BYTES
        if self._empty_bytes + size > max_bytes:
            raise ValueError(
                f"documents[{self._num_documents - 1}] takes {self._empty_bytes + size} bytes in a request; "
                f"the server's limits.max_request_bytes is {max_bytes}"
            )
        limit = max_bytes if self._batch_bytes is None else min(self._batch_bytes, max_bytes)
        full = None
        num_before = len(self._request.documents)
        if num_before and (num_before == self._max_documents or self._bytes + size > limit):
            full = self._take()
        self._request.documents.append(message)
        self._bytes += size
        return full

    def rest(self) -> documents_pb2.UpsertRequest | None:
        """Returns the last, incomplete request, or None if it is empty."""
        return self._take() if self._request.documents else None

    def located(self, error: errors.MaxsimError) -> errors.MaxsimError:
        """Returns a stream's error, with documents' indices in the whole call instead of those in a request."""

        def among_all(found: re.Match[str]) -> str:
            return f"documents[{sum(self._sizes[: int(found[1])]) + int(found[2])}]"

        return errors.with_names(error, lambda text: _DOCUMENT_OF_REQUEST.sub(among_all, text))

    def _start(self) -> None:
        self._request = documents_pb2.UpsertRequest(collection=self._collection)
        self._bytes = self._empty_bytes = self._request.ByteSize()

    def _take(self) -> documents_pb2.UpsertRequest:
        request = self._request
        self._sizes.append(len(request.documents))
        self._start()
        return request


def request_bytes(limits: pb.Limits) -> int:
    """Returns the largest size of a request that the server accepts and this client sends."""
    return min(limits.max_request_bytes or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)


class UpsertAnswers:
    """Joins the answers to the requests of one call."""

    def __init__(self) -> None:
        self._results: list[WriteResult] = []
        self._sequence = 0
        self._encoded_tokens = 0

    def add(self, response: documents_pb2.UpsertResponse) -> None:
        self._results.extend(map(write_result, response.results))
        self._sequence = max(self._sequence, response.sequence)
        self._encoded_tokens += response.encoded_tokens

    def located(self, error: errors.MaxsimError) -> errors.MaxsimError:
        """Returns a request's error, with documents' indices in the whole call instead of those in the request."""
        return errors.shift_indices(error, "documents", len(self._results))

    def results(self) -> WriteResults:
        if not self._results:
            raise ValueError("documents is empty; at least one document is needed")
        return WriteResults(self._results, self._sequence, self._encoded_tokens)


class DeleteAnswers:
    """Divides ids among requests, and joins the answers."""

    def __init__(self, collection: str, ids: Ids, version: int | None) -> None:
        number = _version(version, "version")
        whole = documents_pb2.DeleteRequest()
        fill_ids(whole, ids, "ids", "at least one id is needed")
        of_strings = whole.WhichOneof("ids") == "string_ids"
        listed: Sequence[Any] = whole.string_ids.ids if of_strings else whole.int_ids.ids
        self.requests: list[documents_pb2.DeleteRequest] = []
        for first in range(0, len(listed), MAX_DELETE_IDS):
            request = documents_pb2.DeleteRequest(collection=required_collection(collection), version=number)
            target: Any = request.string_ids if of_strings else request.int_ids
            target.ids.extend(listed[first : first + MAX_DELETE_IDS])
            self.requests.append(request)
        self._results: list[WriteResult] = []
        self._sequence = 0

    def add(self, response: documents_pb2.DeleteResponse) -> None:
        self._results.extend(map(write_result, response.results))
        self._sequence = max(self._sequence, response.sequence)

    def located(self, error: errors.MaxsimError) -> errors.MaxsimError:
        """Returns a request's error, with ids' indices in the whole call instead of those in the request."""
        return errors.shift_indices(error, "ids", len(self._results))

    def results(self) -> WriteResults:
        return WriteResults(self._results, self._sequence)


class MatchingDeletes:
    """Repeats the request of delete_matching until no more documents match, and adds up the answers."""

    def __init__(self, collection: str, filter: FilterLike, version: int | None, min_sequence: int | None) -> None:
        if filter is None:
            raise ValueError("filter is None; must be a text, a dict, or made with F")
        self._request = documents_pb2.DeleteRequest(
            collection=required_collection(collection),
            version=_version(version, "version"),
            min_sequence=arguments.sequence(min_sequence, "min_sequence"),
        )
        fill_filter(self._request, filter)
        self._has_more = True
        self._num_deleted = self._num_missing = self._num_stale = 0
        self._sequence = 0

    def next_request(self) -> documents_pb2.DeleteRequest | None:
        """Returns the next request, or None after the last one. It asks for a state that has the deletes so far:
        otherwise a replica that lags behind would find deleted documents again."""
        return self._request if self._has_more else None

    def add(self, response: documents_pb2.DeleteResponse) -> None:
        if response.has_more and not response.num_deleted + response.num_missing + response.num_stale:
            raise errors.Internal("the server's answer is wrong: has_more is set, but no document was found")
        self._num_deleted += response.num_deleted
        self._num_missing += response.num_missing
        self._num_stale += response.num_stale
        self._sequence = max(self._sequence, response.sequence)
        self._request.min_sequence = max(self._request.min_sequence, response.sequence)
        self._has_more = response.has_more

    def failed(self, error: errors.MaxsimError) -> None:
        """Counts the documents that a failed attempt deleted: at a router, one group may fail after others have deleted
        theirs. The next attempt does not find these documents, so its answer does not count them."""
        self._num_deleted += error.num_deleted or 0

    def located(self, error: errors.MaxsimError) -> errors.MaxsimError:
        """Returns the error of the last attempt, with the number of documents that all attempts have deleted. Call
        `failed` with the error first."""
        return error.with_num_deleted(self._num_deleted) if self._num_deleted else error

    def summary(self) -> DeleteSummary:
        return DeleteSummary(self._num_deleted, self._num_missing, self._num_stale, self._sequence)


def make_get_request(
    collection: str, ids: Ids, return_tokens: bool, min_sequence: int | None
) -> documents_pb2.GetRequest:
    request = documents_pb2.GetRequest(
        collection=required_collection(collection),
        return_tokens=arguments.flag(return_tokens, "return_tokens"),
        min_sequence=arguments.sequence(min_sequence, "min_sequence"),
    )
    fill_ids(request, ids, "ids", "at least one id is needed")
    return request


def make_count_request(
    collection: str, filter: FilterLike | None, min_sequence: int | None
) -> documents_pb2.CountRequest:
    request = documents_pb2.CountRequest(
        collection=required_collection(collection),
        min_sequence=arguments.sequence(min_sequence, "min_sequence"),
    )
    fill_filter(request, filter)
    return request


def make_facets_request(
    collection: str, field: str, filter: FilterLike | None, limit: int, min_sequence: int | None
) -> documents_pb2.FacetsRequest:
    request = documents_pb2.FacetsRequest(
        collection=required_collection(collection),
        field=arguments.text(field, "field", "the name of a field"),
        limit=arguments.whole_number(limit, "limit", 1, MAX_FACET_VALUES),
        min_sequence=arguments.sequence(min_sequence, "min_sequence"),
    )
    fill_filter(request, filter)
    return request


def check_upsert_stream(
    documents: object, batch_documents: object, batch_bytes: object, timeout: object
) -> float | None:
    """Returns the timeout. Raises ValueError for an argument of upsert_stream that is wrong."""
    check_documents(documents, or_asynchronous=True)
    arguments.whole_number(batch_documents, "batch_documents", 1, MAX_UPSERT_DOCUMENTS)
    arguments.whole_number(batch_bytes, "batch_bytes", 1)
    return arguments.timeout(timeout)


def check_documents(documents: object, *, or_asynchronous: bool = False) -> None:
    """Raises ValueError if the argument is a single document or no documents at all."""
    single = isinstance(documents, (str, bytes, Mapping, NewDocument))
    accepted = isinstance(documents, Iterable) or (or_asynchronous and hasattr(documents, "__aiter__"))
    if single or not accepted:
        raise ValueError(f"documents is {arguments.shown(documents)}; must be an iterable of documents")


def required_collection(collection: str) -> str:
    """Returns the name of the collection to write or read. ValueError if there is none."""
    if not arguments.text(collection, "collection", "the name of a collection"):
        raise ValueError("collection is ''; must be the name of a collection")
    return collection


def _fill_document(message: documents_pb2.Document, document: DocumentLike, name: str) -> None:
    given = _as_new_document(document, name)
    if isinstance(given.id, str):
        message.string_id = arguments.text(given.id, f"{name}.id")
    else:
        number = arguments.integer(given.id)
        if number is None or not -(2**63) <= number < 2**63:
            raise ValueError(f"{name}.id is {arguments.shown(given.id)}; must be a string or an integer of 64 bits")
        message.int_id = number
    if (given.tokens is None) == (given.text is None):
        which = "neither tokens nor text" if given.text is None else "both tokens and text"
        raise ValueError(f"{name} has {which}; must have one of them")
    if given.text is not None:
        message.text = arguments.text(given.text, f"{name}.text")
    elif given.tokens is not None:
        fill_matrix(message.tokens, given.tokens, f"{name}.tokens")
    message.payload = _payload(given.payload, f"{name}.payload")
    message.version = _version(given.version, f"{name}.version")


def _as_new_document(document: Any, name: str) -> NewDocument:
    if isinstance(document, NewDocument):
        return document
    if isinstance(document, Mapping):
        for key in document:
            if key not in _NAMES:
                raise ValueError(f"{name} has {arguments.shown(key)}; a document has {', '.join(_NAMES)}")
        if "id" not in document:
            raise ValueError(f"{name} has no id")
        return NewDocument(**document)
    if isinstance(document, tuple) and len(document) in (2, 3):
        id, content, *payload = document
        tokens, text = (None, content) if isinstance(content, str) else (content, None)
        return NewDocument(id, tokens, text=text, payload=payload[0] if payload else None)
    raise ValueError(f"{name} is {arguments.shown(document)}; must be {_ACCEPTED}")


def _payload(payload: object, name: str) -> str:
    if payload is None:
        return ""
    if isinstance(payload, str):
        return arguments.text(payload, name)
    if not isinstance(payload, Mapping):
        raise ValueError(f"{name} is {arguments.shown(payload)}; must be a mapping, or a JSON object as text")
    try:
        return arguments.text(json.dumps(dict(payload), ensure_ascii=False, allow_nan=False), name)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} is {arguments.shown(payload)}, which is not JSON: {error}") from error


def _version(version: object, name: str) -> int:
    return 0 if version is None else arguments.whole_number(version, name, 1, arguments.MAX_SEQUENCE)
