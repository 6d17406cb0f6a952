"""How an AsyncClient makes a call, and its methods that write and list documents."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from . import arguments, errors
from .base_client import BaseClient, ResultT, Steps
from .call_end import CallEnd
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
AnsweredT = TypeVar("AnsweredT")
AwaitedT = TypeVar("AwaitedT", covariant=True)


# Exceptions of a write to a stream that has ended.
_ENDED = (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError)


class AsyncCall(Protocol[AskedT, AwaitedT]):
    """A method of a generated stub."""

    def __call__(self, request: AskedT, /, *, timeout: float | None = ...) -> Awaitable[AwaitedT]: ...


class AsyncDocumentMethods(BaseClient):
    """Makes the calls of an AsyncClient, among them those to the server's Documents service."""

    @property
    @abc.abstractmethod
    def documents(self) -> documents_pb2_grpc.DocumentsAsyncStub: ...

    @abc.abstractmethod
    async def _run(self, steps: Steps[ResultT]) -> ResultT: ...

    async def _call(
        self,
        call: AsyncCall[AskedT, AnsweredT],
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
                return await call(request, timeout=attempts.remaining(time.monotonic()))
            except grpc.RpcError as error:
                failure = errors.from_rpc_error(error, self._made_of, limit)
                if note_failure is not None:
                    note_failure(failure)
                delay = attempts.next_delay(failure, time.monotonic())
                if delay is None:
                    raise failure from error
            await asyncio.sleep(delay)

    async def upsert(
        self,
        collection: str,
        documents: Iterable[DocumentLike] | AsyncIterable[DocumentLike],
        *,
        timeout: float | None = None,
    ) -> WriteResults:
        """Client.upsert. Documents may come from an asynchronous iterator."""
        check_documents(documents, or_asynchronous=True)
        batches, answers = UpsertBatches(collection), UpsertAnswers()
        async for document in _each(documents):
            full = batches.put(batches.convert(document), request_bytes(await self._server_limits(timeout)))
            if full is not None:
                await self._upsert(full, answers, timeout)
        rest = batches.rest()
        if rest is not None:
            await self._upsert(rest, answers, timeout)
        return answers.results()

    async def _upsert(
        self, request: documents_pb2.UpsertRequest, answers: UpsertAnswers, timeout: float | None
    ) -> None:
        try:
            answers.add(await self._call(self.documents.Upsert, request, timeout))
        except errors.MaxsimError as error:
            raise answers.located(error) from error.__cause__

    async def upsert_stream(
        self,
        collection: str,
        documents: Iterable[DocumentLike] | AsyncIterable[DocumentLike],
        *,
        batch_documents: int = DEFAULT_BATCH_DOCUMENTS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> UpsertSummary:
        """Client.upsert_stream. Documents may come from an asynchronous iterator."""
        limit = check_upsert_stream(documents, batch_documents, batch_bytes, timeout)
        batches = UpsertBatches(collection, batch_documents, batch_bytes)
        max_bytes = request_bytes(await self._server_limits(timeout))
        call = self.documents.UpsertStream(timeout=limit)
        end = CallEnd(call)
        failure: Exception | None = None
        try:
            # Writing to a stream that the server has ended raises. This is ignored: `await call` raises the server's
            # error.
            with contextlib.suppress(*_ENDED):
                try:
                    async for document in _each(documents):
                        full = batches.put(batches.convert(document), max_bytes)
                        if full is not None:
                            await call.write(full)
                except _ENDED:
                    raise
                except Exception as raised:
                    failure = raised  # The stream ends after the documents that were sent before.
                rest = batches.rest()
                if rest is not None:
                    await call.write(rest)
                await call.done_writing()
            response = await call
        except grpc.RpcError as raised:
            error = await end.explain(raised) or raised
            raise batches.located(errors.from_rpc_error(error, self._made_of, limit)) from error
        finally:
            call.cancel()
        if failure is not None:
            raise failure
        return read_summary(response)

    async def delete_matching(
        self,
        collection: str,
        filter: FilterLike,
        *,
        version: int | None = None,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> DeleteSummary:
        """Does what Client.delete_matching does."""
        deletes = MatchingDeletes(collection, filter, version, min_sequence)
        while (request := deletes.next_request()) is not None:
            try:
                deletes.add(
                    await self._call(
                        self.documents.Delete, request, timeout, retry=waiting(self._retry), note_failure=deletes.failed
                    )
                )
            except errors.MaxsimError as error:
                raise deletes.located(error) from error.__cause__
        return deletes.summary()

    async def scroll(
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
    ) -> AsyncIterator[StoredDocument]:
        """Client.scroll: `async for document in client.scroll("docs")`."""
        pages = ScrollPages(collection, filter, after, page_size, payloads, return_tokens, min_sequence)
        while (request := pages.next_request()) is not None:
            page = await self._call(self.documents.Scroll, request, timeout, retry=waiting(self._retry))
            for document in pages.take(page):
                yield document

    async def _server_limits(self, timeout: float | None) -> pb.Limits:
        if self._limits is None:
            return await self._run(self._limits_steps(timeout))
        return self._limits


async def _each(documents: Iterable[DocumentLike] | AsyncIterable[DocumentLike]) -> AsyncIterator[DocumentLike]:
    if isinstance(documents, AsyncIterable):
        async for document in documents:
            yield document
    else:
        for document in documents:
            yield document
