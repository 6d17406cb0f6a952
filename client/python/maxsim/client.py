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
from .ranking import Document, Ranking
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
    ],
    DocumentMethods,
):
    """A connection to maxsimd, or to each of several. Thread-safe. Connects on its first call.

    Calls raise a MaxsimError with the server's code and message, ValueError for an argument that is wrong. `reranker`,
    `documents` and `admin` are the generated stubs, for everything that has no method here. Their calls carry the token
    and the client's name too; they are not retried, raise grpc.RpcError, and have no timeout but the one that is given
    them."""

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
        """Ends the connection and the calls under way."""
        self._channel.close()

    def collection(self, name: str | None) -> ClientCollection:
        """Returns one collection of the server, whose calls need not name it. Asks the server nothing."""
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
        """Sends requests over one stream and yields their answers: in the order of the requests, or, with
        ordered=False, as they come.

        Requests are taken from the iterator, by another thread, while answers are awaited: at most `max_in_flight` are
        ahead of the answers that have been yielded. An error of one request is in its answer and leaves the stream
        open; nothing is retried. An error of the stream is raised. What the iterator raises is raised too, after the
        answers to what it yielded before; so is the ValueError for a request with a wrong argument, which names the
        request's index (`requests[3]: query has the shape [48]; ...`). That request and all later ones are not sent.
        `timeout` bounds the whole stream, in seconds above 0; with None nothing does."""
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
            """Runs in a thread of gRPC's, and refers to nothing that keeps the call alive."""
            try:
                for request in requests:
                    places.acquire()
                    if closed.is_set():
                        return
                    yield open_requests.message(request)
                open_requests.complete()
            except Exception as failure:
                # gRPC would print it and tell the caller nothing. The stream ends with what has been sent.
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

    # As those of a client, whose types pyright knows; of ServedCollection it knows no answers.
    rerank = in_collection(Client.rerank)
    rerank_many = in_collection(Client.rerank_many)
    upsert = in_collection(Client.upsert)
    upsert_stream = in_collection(Client.upsert_stream)
    delete = in_collection(Client.delete)
    get = in_collection(Client.get)
    scroll = in_collection(Client.scroll)
    count = in_collection(Client.count)
    facets = in_collection(Client.facets)
