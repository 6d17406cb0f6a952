"""How a Client makes a call, and its methods that write and list documents."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import grpc

from . import arguments, errors
from .base_client import BaseClient, ResultT, Steps
from .documents import DeleteSummary, DocumentLike, StoredDocument, UpsertSummary, WriteResults, read_summary
from .filters import FilterLike
from .requests import Id
from .retries import NEVER, Attempts, Retry
from .scrolling import DEFAULT_PAGE_SIZE, ScrollPages, waiting
from .v1 import documents_pb2, documents_pb2_grpc
from .v1 import rerank_pb2 as pb
from .writes import (
    DEFAULT_BATCH_BYTES,
    DEFAULT_BATCH_DOCUMENTS,
    MatchingDeletes,
    UpsertAnswers,
    UpsertBatches,
    check_documents,
    check_upsert_stream,
    request_bytes,
)

AskedT = TypeVar("AskedT", contravariant=True)
AnsweredT = TypeVar("AnsweredT", covariant=True)


class BlockingCall(Protocol[AskedT, AnsweredT]):
    """A method of a generated stub."""

    def __call__(self, request: AskedT, /, *, timeout: float | None = ...) -> AnsweredT: ...


class DocumentMethods(BaseClient):
    """Makes the calls of a Client, among them those to the server's Documents service."""

    documents: documents_pb2_grpc.DocumentsStub

    @abc.abstractmethod
    def _run(self, steps: Steps[ResultT]) -> ResultT: ...

    def _call(
        self,
        call: BlockingCall[AskedT, AnsweredT],
        request: AskedT,
        timeout: float | None,
        once: bool = False,
        retry: Retry | None = None,
        note_failure: Callable[[errors.MaxsimError], None] | None = None,
    ) -> AnsweredT:
        """Makes a call, and repeats it as long as its error permits a retry. `once` is as in Step: if True, the call is
        made only once. `retry` replaces the client's. `note_failure` gets the error of each attempt that fails."""
        limit = arguments.timeout(timeout) or (self._admin_timeout if once else self._timeout)
        attempts = Attempts(NEVER if once else retry or self._retry, time.monotonic() + limit)
        while True:
            try:
                return call(request, timeout=attempts.remaining(time.monotonic()))
            except grpc.RpcError as error:
                failure = errors.from_rpc_error(error, self._made_of, limit)
                if note_failure is not None:
                    note_failure(failure)
                delay = attempts.next_delay(failure, time.monotonic())
                if delay is None:
                    raise failure from error
            time.sleep(delay)

    def upsert(
        self, collection: str, documents: Iterable[DocumentLike], *, timeout: float | None = None
    ) -> WriteResults:
        """Adds documents to a live collection. A document replaces the one that has its id, as a whole. Returns when
        the documents are on the server's disk and every later request sees them.

        documents: any iterable of NewDocument, of mappings with the same names ({"id": ..., "tokens": ..., "payload":
            ..., "version": ...}), or of tuples (id, tokens or text[, payload]). Token vectors are [tokens, dim], in
            any form that maxsim.token_vectors takes. float16, bfloat16 and float32 are sent unchanged, and the server
            rounds them to the collection's storage type.
        timeout: seconds above 0 that each request may take, retries included; None: the client's.

        If the server has `auth.write_tokens_file`, writing needs a token from that file.

        The documents are sent in requests of at most 10,000 documents and the server's limits.max_request_bytes. The
        server writes the requests in order, each as a whole or not at all. If one fails, those before it have been
        written.

        Requests are retried like those of `rerank`: writing a document twice has the same effect as writing it once,
        because it is replaced as a whole. If the answer to a first attempt was lost, a document with a version may be
        reported as "stale" although this call wrote it. A document without a version is always written, so a retry
        may replace a document that another client wrote between the attempts. If several clients write the same ids,
        use versions.

        Returns a result for each document, and the collection's sequence number for `min_sequence`. ValueError: an
        argument is wrong; the message names it (`documents[3].tokens has shape [48]; ...`). FailedPrecondition:
        the collection is not live. ResourceExhausted with `retry_after`: the memory for written documents is full
        until the next compaction. InvalidArgument: the server refuses a part of the request, which `field` names."""
        check_documents(documents)
        batches, answers = UpsertBatches(collection), UpsertAnswers()
        for document in documents:
            full = batches.put(batches.convert(document), request_bytes(self._server_limits(timeout)))
            if full is not None:
                self._upsert(full, answers, timeout)
        rest = batches.rest()
        if rest is not None:
            self._upsert(rest, answers, timeout)
        return answers.results()

    def _upsert(self, request: documents_pb2.UpsertRequest, answers: UpsertAnswers, timeout: float | None) -> None:
        try:
            answers.add(self._call(self.documents.Upsert, request, timeout))
        except errors.MaxsimError as error:
            raise answers.located(error) from error.__cause__

    def upsert_stream(
        self,
        collection: str,
        documents: Iterable[DocumentLike],
        *,
        batch_documents: int = DEFAULT_BATCH_DOCUMENTS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> UpsertSummary:
        """Writes any number of documents over one stream, in the forms that `upsert` takes. Returns when all are
        written.

        Another thread takes the documents from the iterable as fast as the server writes, and holds only one batch in
        memory, of at most `batch_documents` documents and about `batch_bytes`. If the server's memory is full, the
        server waits a while. Nothing is retried, because a document that was taken from the iterable cannot be taken
        again; use `upsert`, which also takes an iterable, if you need retries. After an error, the documents of earlier
        batches may have been written. It does no harm to write all of them again.

        An exception of the iterable is raised, and so is a ValueError for a wrong document; the documents before it are
        written. `timeout` bounds the whole stream, in seconds above 0. If it is None, the stream has no time limit."""
        limit = check_upsert_stream(documents, batch_documents, batch_bytes, timeout)
        batches = UpsertBatches(collection, batch_documents, batch_bytes)
        max_bytes = request_bytes(self._server_limits(timeout))
        closed = threading.Event()
        failures: list[Exception] = []

        def messages() -> Iterator[documents_pb2.UpsertRequest]:
            """Runs in a thread of gRPC."""
            try:
                for document in documents:
                    full = batches.put(batches.convert(document), max_bytes)
                    if closed.is_set():
                        return
                    if full is not None:
                        yield full
            except Exception as failure:
                # gRPC would only print this exception. Keep it for the caller, and end the stream after the documents
                # that came before.
                failures.append(failure)
            rest = batches.rest()
            if rest is not None:
                yield rest

        try:
            response = self.documents.UpsertStream(messages(), timeout=limit)
        except grpc.RpcError as error:
            raise batches.located(errors.from_rpc_error(error, self._made_of, limit)) from error
        finally:
            closed.set()
        if failures:
            raise failures[0]
        return read_summary(response)

    def delete_matching(
        self,
        collection: str,
        filter: FilterLike,
        *,
        version: int | None = None,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> DeleteSummary:
        """Deletes the documents of a live collection that match `filter`, which is in any form that `rerank` takes.
        Returns how many were deleted, once no later request sees them.

        The server finds the documents that match, then deletes them by their ids. If another client replaces a document
        between the two steps, the new document is deleted as well, even if it does not match. One request deletes at
        most 100,000 documents (through a router, of each group). For more, the client repeats the request until no more
        documents match; each request may take `timeout`.

        version: leaves out documents that have the same or a newer version.
        min_sequence: finds the documents in a state that has this write, as in `rerank`. With `live.log: nats`, the
            server that is asked may lag behind writes that other servers have confirmed, and may delete a document's
            replacement that it does not have yet. So give the sequence of your last write, or use versions.

        There is no default for `filter`, so that nobody deletes all documents by mistake.

        Requests are retried like those of `rerank`, and also if the server is busy with other deletes of this kind. If
        the answer to an attempt is lost, the result does not count the documents that this attempt deleted. Errors are
        those of `delete`; `num_deleted` of an error is the number of documents that were deleted before it. A retry, or
        a call after an error, also deletes documents that match and were written since the first attempt, unless
        `version` protects them."""
        deletes = MatchingDeletes(collection, filter, version, min_sequence)
        while (request := deletes.next_request()) is not None:
            try:
                deletes.add(
                    self._call(
                        self.documents.Delete, request, timeout, retry=waiting(self._retry), note_failure=deletes.failed
                    )
                )
            except errors.MaxsimError as error:
                raise deletes.located(error) from error.__cause__
        return deletes.summary()

    def scroll(
        self,
        collection: str,
        *,
        filter: FilterLike | None = None,
        after: Id | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
        payloads: bool = True,
        return_tokens: bool = False,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[StoredDocument]:
        """Yields the documents of a collection in the order of their ids: integers ascending, strings by their UTF-8
        bytes. With `filter`, as `rerank` takes it, yields only documents that match.

        Reads pages of `page_size` documents, 1 to 1,000, as the iterator needs them. Other clients may write in
        between: a document that exists and matches from the first page to the last is yielded exactly once. `after`
        leaves out this id and all ids before it, to continue after the last document of an earlier iterator.
        `return_tokens` and `min_sequence` are those of `get`. `payloads` fills StoredDocument.payload. `timeout` bounds
        the reading of each page. If the server is busy and says when to try again, the page is read again then."""
        arguments.timeout(timeout)
        pages = ScrollPages(collection, filter, after, page_size, payloads, return_tokens, min_sequence)
        return self._scroll(pages, timeout)

    def _scroll(self, pages: ScrollPages, timeout: float | None) -> Iterator[StoredDocument]:
        while (request := pages.next_request()) is not None:
            yield from pages.take(self._call(self.documents.Scroll, request, timeout, retry=waiting(self._retry)))

    def _server_limits(self, timeout: float | None) -> pb.Limits:
        return self._limits or self._run(self._limits_steps(timeout))
