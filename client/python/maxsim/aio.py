"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import operator
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterable
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from . import errors
from .async_document_methods import AsyncDocumentMethods
from .base_client import ResultT, Steps
from .call_end import CallEnd
from .client_methods import ClientMethods, with_coroutine_functions
from .documents import Facets, StoredDocuments, WriteResults
from .interceptors import async_call_metadata
from .methods import ServedCollection, in_collection
from .ranking import Explanation, Ranking
from .requests import Request, collection_name
from .streams import DEFAULT_IN_FLIGHT, OpenRequests, StreamAnswer, check_stream_arguments
from .v1 import admin_pb2_grpc, documents_pb2_grpc, rerank_pb2_grpc
from .v1 import rerank_pb2 as pb


@with_coroutine_functions
class AsyncClient(
    ClientMethods[
        "Coroutine[Any, Any, Ranking]",
        "Coroutine[Any, Any, list[Ranking]]",
        "Coroutine[Any, Any, pb.GetInfoResponse]",
        "Coroutine[Any, Any, list[pb.CollectionInfo]]",
        "Coroutine[Any, Any, pb.CollectionInfo]",
        "Coroutine[Any, Any, bool]",
        "Coroutine[Any, Any, None]",
        "Coroutine[Any, Any, int]",
        "Coroutine[Any, Any, WriteResults]",
        "Coroutine[Any, Any, StoredDocuments]",
        "Coroutine[Any, Any, Facets]",
        "Coroutine[Any, Any, Explanation]",
    ],
    AsyncDocumentMethods,
):
    """Client for asyncio: the methods of Client, to be awaited. It belongs to the event loop of its first call.

    `async with AsyncClient("localhost:7070") as client: ranking = await client.rerank("docs", query, ids=[...])`"""

    _opened: grpc.aio.Channel | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection and cancels the calls in progress."""
        if self._opened is not None:
            await self._opened.close()

    def _channel(self) -> grpc.aio.Channel:
        """Opens the channel at the first call, because a channel belongs to the event loop that is running when it is
        opened."""
        if self._opened is None:
            made_of = self._made_of
            interceptors = async_call_metadata(made_of.metadata) if made_of.metadata else None
            if made_of.credentials is None:
                self._opened = grpc.aio.insecure_channel(made_of.target, made_of.options, None, interceptors)
            else:
                self._opened = grpc.aio.secure_channel(
                    made_of.target, made_of.credentials, made_of.options, None, interceptors
                )
        return self._opened

    @property
    def reranker(self) -> rerank_pb2_grpc.RerankerAsyncStub:
        """The generated stub, as Client.reranker."""
        return rerank_pb2_grpc.RerankerAsyncStub(self._channel())

    @property
    def admin(self) -> admin_pb2_grpc.AdminAsyncStub:
        """The generated stub, as Client.admin."""
        return admin_pb2_grpc.AdminAsyncStub(self._channel())

    @property
    def documents(self) -> documents_pb2_grpc.DocumentsAsyncStub:
        """The generated stub, as Client.documents."""
        return documents_pb2_grpc.DocumentsAsyncStub(self._channel())

    def collection(self, name: str | None) -> AsyncClientCollection:
        """Client.collection."""
        collection_name(name)  # Raises now for a wrong name.
        return AsyncClientCollection(self, name)

    async def rerank_stream(
        self,
        requests: Iterable[Request] | AsyncIterable[Request],
        *,
        ordered: bool = True,
        max_in_flight: int = DEFAULT_IN_FLIGHT,
        timeout: float | None = None,
    ) -> AsyncIterator[StreamAnswer]:
        """Does what Client.rerank_stream does: `async for answer in client.rerank_stream(requests)`. Requests may also
        come from an asynchronous iterator."""
        timeout = check_stream_arguments(requests, ordered, max_in_flight, timeout)
        open_requests, places = OpenRequests(ordered), asyncio.Semaphore(max_in_flight)
        failures: list[Exception] = []
        ended = asyncio.Event()
        call = self.reranker.RerankStream(timeout=timeout)
        end = CallEnd(call)
        writer = asyncio.ensure_future(_send(call, requests, open_requests, places, ended, failures))
        try:
            try:
                async for response in call:
                    for answer in open_requests.answers(response):
                        places.release()
                        yield answer
            except errors.MaxsimError:
                raise
            except grpc.RpcError as raised:
                error = await end.explain(raised)
                if error is not None:
                    raise errors.from_rpc_error(error, self._made_of, timeout) from error
            if failures:
                raise failures[0]
            open_requests.check_ended()
        finally:
            # gRPC may swallow the cancellation of a write, because it takes the cancellation for the end of the stream.
            # So this code also sets `ended`, which the writer checks.
            ended.set()
            places.release()
            writer.cancel()
            call.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _run(self, steps: Steps[ResultT]) -> ResultT:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._call(
                        operator.attrgetter(step.method)(self), step.request, step.timeout, step.once
                    )
                except errors.MaxsimError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result


class AsyncClientCollection(ServedCollection["Coroutine[Any, Any, Ranking]", "Coroutine[Any, Any, list[Ranking]]"]):
    """A collection as an AsyncClient sees it: `await client.collection("notes").upsert(documents)`."""

    rerank = in_collection(AsyncClient.rerank)
    rerank_many = in_collection(AsyncClient.rerank_many)
    explain = in_collection(AsyncClient.explain)
    upsert = in_collection(AsyncClient.upsert)
    upsert_stream = in_collection(AsyncClient.upsert_stream)
    delete = in_collection(AsyncClient.delete)
    delete_matching = in_collection(AsyncClient.delete_matching)
    get = in_collection(AsyncClient.get)
    scroll = in_collection(AsyncClient.scroll)
    count = in_collection(AsyncClient.count)
    facets = in_collection(AsyncClient.facets)


async def _send(
    call: Any,
    requests: Iterable[Request] | AsyncIterable[Request],
    open_requests: OpenRequests,
    places: asyncio.Semaphore,
    ended: asyncio.Event,
    failures: list[Exception],
) -> None:
    """Writes the requests of a stream. If a request is wrong or its iterator raises, appends the exception to
    `failures` and ends the stream after the requests that were sent. May be waiting for `places`, so code that sets
    `ended` must also release a place."""

    async def write(request: Request) -> bool:
        """Writes a request when a place is free. Returns False if the stream has ended. The code that reads the answers
        gets the reason."""
        await places.acquire()
        if ended.is_set():
            return False
        message = open_requests.message(request)
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await call.write(message)
            return not ended.is_set()
        return False

    try:
        if isinstance(requests, AsyncIterable):
            async for request in requests:
                if not await write(request):
                    return
        else:
            for request in requests:
                if not await write(request):
                    return
        open_requests.complete()
    except Exception as failure:
        failures.append(failure)
    finally:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await call.done_writing()
