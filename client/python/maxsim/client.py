"""The blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

import grpc

from . import arguments, connection, errors
from .admin_requests import IdType, Storage, make_create_request, make_load_request, make_snapshot_request
from .document_methods import AnsweredT, AskedT, BlockingCall, DocumentMethods
from .documents import DocumentLike, StoredDocuments, UpsertSummary, WriteResults
from .interceptors import CallMetadata
from .methods import RerankMethods, ServedCollection
from .ranking import Document, Ranking, read_response
from .requests import Ids, Request, collection_name, token_matrix
from .retries import NEVER, Attempts, Retry, check_retry
from .splitting import RerankParts
from .streams import DEFAULT_IN_FLIGHT, OpenRequests, StreamAnswer, check_stream_arguments
from .v1 import admin_pb2, admin_pb2_grpc, documents_pb2_grpc, rerank_pb2_grpc
from .v1 import rerank_pb2 as pb
from .writes import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_DOCUMENTS

__all__ = ["Client", "Document", "Ranking", "token_matrix"]


class Client(RerankMethods[Ranking, "list[Ranking]"], DocumentMethods):
    """A connection to maxsimd, or to each of several. Thread-safe. Connects on its first call.

    Calls raise a MaxsimError with the server's code and message, ValueError for an argument that is wrong. `reranker`,
    `documents` and `admin` are the generated stubs, for everything that has no method here. Their calls carry the token
    and the client's name too; they are not retried, raise grpc.RpcError, and have no timeout but the one that is given
    them."""

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = 30.0,
        admin_timeout: float = 600.0,
        retry: Retry = Retry(),
        token: str | None = None,
        token_file: connection.Path | None = None,
        client_id: str | None = None,
        client_key: str = "x-client-id",
        tls: bool | None = None,
        ca_file: connection.Path | None = None,
        cert_file: connection.Path | None = None,
        key_file: connection.Path | None = None,
        server_name: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """target: host:port (port 7070 where it has none), or any gRPC name; where it has several addresses
            ("dns:///maxsimd:7070", "ipv4:10.0.0.1:7070,10.0.0.2:7070"), calls go to them in turn. None: $MAXSIM_SERVER,
            else localhost.
        timeout: seconds above 0 that a call may take, retries included; admin_timeout: the same for load and the
            other calls that change which collections there are.
        retry: how often calls that may be repeated are tried.
        token: what the server's auth.tokens_file knows; token_file: a file whose first token is it. Neither:
            $MAXSIM_TOKEN, $MAXSIM_TOKEN_FILE.
        client_id: whose share of a busy server the calls take, in place of this machine's address; sent as the metadata
            `client_key`, the server's batching.client_key. None: $MAXSIM_CLIENT_ID.
        tls: True speaks TLS, False never. ca_file (PEM) has the authorities that may have signed the server's
            certificate, the system's where it is None; cert_file and key_file are this client's own. Each of them turns
            TLS on. None: $MAXSIM_CA_FILE, $MAXSIM_CLIENT_CERT_FILE, $MAXSIM_CLIENT_KEY_FILE. Without TLS the token
            travels in the clear.
        server_name: the name in the server's certificate, where it is not the target's host.
        credentials: of gRPC, in place of tls and its files.
        options: further channel options, which go before those of this class.

        ValueError names an argument that is wrong; OSError: a file cannot be read."""
        self._timeout = arguments.seconds(timeout, "timeout")
        self._admin_timeout = arguments.seconds(admin_timeout, "admin_timeout")
        self._retry = check_retry(retry)
        self._made_of = made_of = connection.resolve(
            target,
            token=token,
            token_file=token_file,
            tls=tls,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            server_name=server_name,
            credentials=credentials,
            client_id=client_id,
            client_key=client_key,
            options=options,
        )
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
        collection_name(name)  # What is wrong is named here.
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
        request's index (`requests[3]: query has the shape [48]; ...`). Neither that request nor one behind it is sent.
        `timeout` bounds the whole stream in seconds above 0; None: nothing does."""
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

    def info(self, *, timeout: float | None = None) -> pb.GetInfoResponse:
        """Version, limits, devices and collections. Of a live collection `live` is set: the sequence number of the last
        write that requests see, the size of the changes since the last compaction, and why nothing can be written."""
        return self._call(self.reranker.GetInfo, pb.GetInfoRequest(), timeout)

    def collections(self, *, timeout: float | None = None) -> list[pb.CollectionInfo]:
        """As Admin lists them, which may want an administrator's token; `info().collections` wants none."""
        request = admin_pb2.ListCollectionsRequest()
        return list(self._call(self.admin.ListCollections, request, timeout).collections)

    # Each of the following is one server's: of several that `target` names, give it the one that is meant. Where the
    # server has `auth.admin_tokens_file`, they want a token of that. They are made once: another attempt after a lost
    # answer would report a conflict with the first.

    def load(
        self,
        name: str,
        path: str,
        *,
        residency: str = "auto",
        replicate: bool = False,
        live: bool = False,
        timeout: float | None = None,
    ) -> pb.CollectionInfo:
        """Serves the folder `path`, on the server's machine, as the collection `name`; returns when it is loaded.
        `residency` is "auto", "gpu", "host" or "disk"; `replicate` copies it to every device. `live` accepts writes,
        and makes the log of them where there is none; a collection with a log is live anyway."""
        request = make_load_request(name, path, residency, replicate, live)
        return self._admin_call(self.admin.LoadCollection, request, timeout).collection

    def reload(self, name: str, *, timeout: float | None = None) -> bool:
        """Swaps in the generation that is published now; False where it was the one being served."""
        request = admin_pb2.ReloadCollectionRequest(name=arguments.text(name, "name"))
        return self._admin_call(self.admin.ReloadCollection, request, timeout).changed

    def unload(self, name: str, *, timeout: float | None = None) -> None:
        """Ends serving a collection; its memory is freed when the last call that uses it has been answered."""
        request = admin_pb2.UnloadCollectionRequest(name=arguments.text(name, "name"))
        self._admin_call(self.admin.UnloadCollection, request, timeout)

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
        timeout: float | None = None,
    ) -> pb.CollectionInfo:
        """Makes an empty live collection of vectors of `dim` values, and serves it.

        path: its folder on the server's machine, which is made; "" is the name, under the server's only allowed root.
        storage: "f16", "bf16", "f32", or "i8", of half the size. id_type: "string" or "int64". residency and replicate:
        as for `load`. encoder: what makes its vectors, say info().encoder; a text is encoded by no other one.

        AlreadyExists: the name is served, or the folder holds a collection; PermissionDenied: no root allows the
        folder."""
        request = make_create_request(name, dim, path, storage, id_type, residency, replicate, encoder)
        return self._admin_call(self.admin.CreateCollection, request, timeout).collection

    def compact_collection(self, name: str, *, timeout: float | None = None) -> bool:
        """Writes the changes of a live collection into its next generation and serves that; False where there were
        none. The server does so by itself, too."""
        request = admin_pb2.CompactCollectionRequest(name=arguments.text(name, "name"))
        return self._admin_call(self.admin.CompactCollection, request, timeout).changed

    def snapshot_collection(self, name: str, path: str, *, timeout: float | None = None) -> int:
        """Copies a live collection as it is now to the folder `path` on the server's machine, which must not be there;
        returns the sequence number of the last write that the copy holds."""
        request = make_snapshot_request(name, path)
        return self._admin_call(self.admin.SnapshotCollection, request, timeout).sequence

    def _rerank_one(self, request: pb.RerankRequest, timeout: float | None) -> Ranking:
        return read_response(self._call(self.reranker.Rerank, request, timeout))[0]

    def _rerank_many(self, request: pb.RerankRequest, timeout: float | None) -> list[Ranking]:
        parts = RerankParts(request, self._server_limits(timeout) if len(request.queries) > 1 else None)
        while (part := parts.next_request()) is not None:
            try:
                parts.add(self._call(self.reranker.Rerank, part, timeout))
            except errors.MaxsimError as error:
                parts.refused(error)
        return parts.rankings()

    def _admin_call(self, call: BlockingCall[AskedT, AnsweredT], request: AskedT, timeout: float | None) -> AnsweredT:
        return self._call(call, request, timeout, NEVER, self._admin_timeout)

    def _call(
        self,
        call: BlockingCall[AskedT, AnsweredT],
        request: AskedT,
        timeout: float | None,
        retry: Retry | None = None,
        default: float | None = None,
    ) -> AnsweredT:
        """Makes a call until its outcome stands. `default` stands in for a timeout of None, and the client's for it."""
        limit = arguments.timeout(timeout) or default or self._timeout
        attempts = Attempts(retry or self._retry, time.monotonic() + limit)
        while True:
            try:
                return call(request, timeout=attempts.remaining(time.monotonic()))
            except grpc.RpcError as error:
                failure = errors.from_rpc_error(error, self._made_of, limit)
                delay = attempts.next_delay(failure, time.monotonic())
                if delay is None:
                    raise failure from error
            time.sleep(delay)


class ClientCollection(ServedCollection[Ranking, "list[Ranking]"]):
    """A collection as a Client sees it: `client.collection("notes").upsert(documents)`."""

    def __init__(self, client: Client, name: str | None) -> None:
        super().__init__(client, name)
        self._documents = client

    def upsert(self, documents: Iterable[DocumentLike], *, timeout: float | None = None) -> WriteResults:
        """Client.upsert into this collection."""
        return self._documents.upsert(self.name or "", documents, timeout=timeout)

    def upsert_stream(
        self,
        documents: Iterable[DocumentLike],
        *,
        batch_documents: int = DEFAULT_BATCH_DOCUMENTS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> UpsertSummary:
        """Client.upsert_stream into this collection."""
        return self._documents.upsert_stream(
            self.name or "", documents, batch_documents=batch_documents, batch_bytes=batch_bytes, timeout=timeout
        )

    def delete(self, ids: Ids, *, version: int | None = None, timeout: float | None = None) -> WriteResults:
        """Client.delete of this collection."""
        return self._documents.delete(self.name or "", ids, version=version, timeout=timeout)

    def get(
        self,
        ids: Ids,
        *,
        return_tokens: bool = False,
        min_sequence: int | None = None,
        timeout: float | None = None,
    ) -> StoredDocuments:
        """Client.get of this collection."""
        return self._documents.get(
            self.name or "", ids, return_tokens=return_tokens, min_sequence=min_sequence, timeout=timeout
        )
