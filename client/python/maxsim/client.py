"""The blocking client."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType

import grpc

from . import errors
from .base_client import ResultT, Steps
from .client_methods import ClientMethods
from .document_methods import DocumentMethods
from .documents import Facets, StoredDocuments, WriteResults
from .interceptors import CallMetadata
from .methods import ServedCollection, in_collection
from .ranking import Document, Explanation, Ranking
from .requests import Request, collection_name, token_matrix
from .streams import DEFAULT_IN_FLIGHT, OpenRequests, StreamAnswer, check_stream_arguments
from .v1 import admin_pb2_grpc, documents_pb2_grpc, rerank_pb2_grpc
from .v1 import rerank_pb2 as pb

__all__ = ["Client", "Document", "Ranking", "token_matrix"]


class Client(
    ClientMethods[
        Ranking,
        "list[Ranking]",
        pb.GetInfoResponse,
        "list[pb.CollectionInfo]",
        pb.CollectionInfo,
        bool,
        None,
        int,
        WriteResults,
        StoredDocuments,
        Facets,
        Explanation,
    ],
    DocumentMethods,
):
    """A connection to maxsimd, or to each of several. Thread-safe. Connects at its first call.

    Calls raise a MaxsimError with the server's code and message, or ValueError if an argument is wrong. For
    everything that has no method here, use the generated stubs `reranker`, `documents` and `admin`. Their calls also
    carry the token and the client's name, but are not retried, raise grpc.RpcError, and have no timeout unless you
    pass one."""

    def _connect(self) -> None:
        made_of = self._made_of
        if made_of.credentials is None:
            self._channel = grpc.insecure_channel(made_of.target, options=made_of.options)
        else:
            self._channel = grpc.secure_channel(made_of.target, made_of.credentials, options=made_of.options)
        channel = self._channel
        if made_of.metadata:
            channel = grpc.intercept_channel(channel, CallMetadata(made_of.metadata))
        self.reranker = rerank_pb2_grpc.RerankerStub(channel)
        self.admin = admin_pb2_grpc.AdminStub(channel)
        self.documents = documents_pb2_grpc.DocumentsStub(channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and cancels the calls in progress."""
        self._channel.close()

    def collection(self, name: str | None) -> ClientCollection:
        """Returns an object for one collection of the server. Its calls need not name the collection. Does not call
        the server."""
        collection_name(name)  # Raises now for a wrong name.
        return ClientCollection(self, name)

    def rerank_stream(
        self,
        requests: Iterable[Request],
        *,
        ordered: bool = True,
        max_in_flight: int = DEFAULT_IN_FLIGHT,
        timeout: float | None = None,
    ) -> Iterator[StreamAnswer]:
        """Sends requests over one stream and yields their answers: in the order of the requests or, with
        ordered=False, in the order of arrival.

        Another thread takes requests from the iterator. At most `max_in_flight` requests are ahead of the answers
        that were yielded. The error of one request is in its answer and leaves the stream open; nothing is retried.
        An error of the stream is raised. If the iterator raises an exception, that exception is raised after the
        answers to the earlier requests. A request with a wrong argument ends the stream in the same way, with a
        ValueError that names its index (`requests[3]: query has shape [48]; ...`): neither this request nor later
        ones are sent. `timeout` bounds the whole stream, in seconds above 0. If it is None, the stream has no time
        limit."""
        timeout = check_stream_arguments(requests, ordered, max_in_flight, timeout)
        return self._stream(requests, OpenRequests(ordered), threading.Semaphore(max_in_flight), timeout)

    def _stream(
        self,
        requests: Iterable[Request],
        open_requests: OpenRequests,
        places: threading.Semaphore,
        timeout: float | None,
    ) -> Iterator[StreamAnswer]:
        closed = threading.Event()
        failures: list[Exception] = []

        def messages() -> Iterator[pb.RerankRequest]:
            """Yields the requests to gRPC, which runs this generator in a thread of its own. Must not refer to the
            call, because that would keep an abandoned call alive."""
            try:
                for request in requests:
                    places.acquire()
                    if closed.is_set():
                        return
                    yield open_requests.message(request)
                open_requests.complete()
            except Exception as failure:
                # gRPC would only print this exception. Keep it for the caller, and end the stream after the requests
                # that were sent.
                failures.append(failure)

        call = self.reranker.RerankStream(messages(), timeout=timeout)
        try:
            for response in call:
                for answer in open_requests.answers(response):
                    places.release()
                    yield answer
            if failures:
                raise failures[0]
            open_requests.check_ended()
        except errors.MaxsimError:
            raise
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error, self._made_of, timeout) from error
        finally:
            closed.set()
            places.release()
            call.cancel()

    def _run(self, steps: Steps[ResultT]) -> ResultT:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._call(operator.attrgetter(step.method)(self), step.request, step.timeout, step.once)
                except errors.MaxsimError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result


class ClientCollection(ServedCollection[Ranking, "list[Ranking]"]):
    """A collection as a Client sees it: `client.collection("notes").upsert(documents)`."""

    # ServedCollection has `rerank` and `rerank_many` too, but pyright cannot infer there what they return.
    rerank = in_collection(Client.rerank)
    rerank_many = in_collection(Client.rerank_many)
    explain = in_collection(Client.explain)
    upsert = in_collection(Client.upsert)
    upsert_stream = in_collection(Client.upsert_stream)
    delete = in_collection(Client.delete)
    delete_matching = in_collection(Client.delete_matching)
    get = in_collection(Client.get)
    scroll = in_collection(Client.scroll)
    count = in_collection(Client.count)
    facets = in_collection(Client.facets)
