"""A thin client over the generated stubs of maxsim.v1."""

import dataclasses
import json
import operator
from typing import Any, List, Mapping, Optional, Sequence, Union

import grpc
import numpy as np

from maxsim.v1 import admin_pb2, admin_pb2_grpc, rerank_pb2, rerank_pb2_grpc

Id = Union[str, int]

_DTYPES = {np.dtype("float32"): rerank_pb2.DATA_TYPE_F32, np.dtype("float16"): rerank_pb2.DATA_TYPE_F16}
_PRIORITIES = {
    "low": rerank_pb2.PRIORITY_LOW,
    "normal": rerank_pb2.PRIORITY_NORMAL,
    "high": rerank_pb2.PRIORITY_HIGH,
}
_MISSING_POLICIES = {"report": rerank_pb2.MISSING_POLICY_REPORT, "fail": rerank_pb2.MISSING_POLICY_FAIL}
_MAX_MESSAGE_BYTES = 256 << 20
_RETRIES = {
    "methodConfig": [
        {
            # Calls that may be repeated; LoadCollection and its like may not.
            "name": [
                {"service": "maxsim.v1.Reranker", "method": "Rerank"},
                {"service": "maxsim.v1.Reranker", "method": "GetInfo"},
                {"service": "maxsim.v1.Admin", "method": "ListCollections"},
            ],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


@dataclasses.dataclass(frozen=True)
class Document:
    """A document of a ranking."""

    id: Optional[Id]  # None for documents that came with the request
    score: float
    position: int  # in the candidate list; for the whole collection, the document's ordinal
    payload: Optional[Any] = None  # parsed JSON, with payloads=True
    matches: Optional[np.ndarray] = None  # [query tokens], the document token each one matched, with alignments=True
    similarities: Optional[np.ndarray] = None  # [query tokens]


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The best documents of one query, best first."""

    documents: List[Document]
    missing: List[Id]  # candidates that the collection does not hold
    generation: int
    unavailable: int = 0  # candidates that were not scored: the server has lost their device

    def __iter__(self):
        return iter(self.documents)

    def __len__(self):
        return len(self.documents)


def token_matrix(tokens: np.ndarray) -> rerank_pb2.TokenMatrix:
    """A [tokens, dim] array as the wire carries it. float16 and float32 go as they are, float64 as float32."""
    tokens = np.asarray(tokens)
    if tokens.ndim != 2:
        raise ValueError(f"a token matrix has the shape [tokens, dim]; this one has {tokens.shape}")
    if tokens.dtype == np.float64:
        tokens = tokens.astype(np.float32)
    if tokens.dtype not in _DTYPES:
        raise ValueError(f"token vectors are float16 or float32; these are {tokens.dtype}")
    little_endian = np.ascontiguousarray(tokens, dtype=tokens.dtype.newbyteorder("<"))
    return rerank_pb2.TokenMatrix(
        dtype=_DTYPES[tokens.dtype], num_tokens=tokens.shape[0], dim=tokens.shape[1], data=little_endian.tobytes()
    )


def _query(query: Union[np.ndarray, str], weights: Optional[Sequence[float]]) -> rerank_pb2.Query:
    """A query of token vectors, or of text, which the server's encoder turns into vectors."""
    if isinstance(query, str):
        return rerank_pb2.Query(text=query, weights=weights)
    return rerank_pb2.Query(tokens=token_matrix(query), weights=weights)


def _integer(value: Any) -> Optional[int]:
    """The int that an integer of any type is; None for a bool, a float and everything else."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _id_list(ids: Sequence[Id]) -> Union[rerank_pb2.StringIds, rerank_pb2.IntIds]:
    """`ids` as the wire carries them; the first one decides which kind all must be of."""
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    if isinstance(ids, (str, bytes)):
        raise ValueError("ids is a list of ids; this is one string")
    ids = list(ids)
    if not ids:
        raise ValueError("ids is empty; at least one candidate is needed (None is the whole collection)")
    strings = isinstance(ids[0], str)
    if strings:
        values = [i if isinstance(i, str) else None for i in ids]
    else:
        values = [i if type(i) is int else _integer(i) for i in ids]  # lists are long, and int is what they mostly hold
    if None in values:
        position = values.index(None)
        raise ValueError(f"ids[{position}] is {ids[position]!r}; ids must be all strings or all integers")
    return rerank_pb2.StringIds(ids=values) if strings else rerank_pb2.IntIds(ids=values)


def _candidates(ids: Optional[Sequence[Id]], documents: Optional[Sequence[np.ndarray]]) -> rerank_pb2.Candidates:
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if documents is not None:
        inline = rerank_pb2.InlineDocuments(documents=[token_matrix(document) for document in documents])
        return rerank_pb2.Candidates(inline_documents=inline)
    if ids is None:
        return rerank_pb2.Candidates(whole_collection=rerank_pb2.WholeCollection())
    listed = _id_list(ids)
    if isinstance(listed, rerank_pb2.StringIds):
        return rerank_pb2.Candidates(string_ids=listed)
    return rerank_pb2.Candidates(int_ids=listed)


def _ranking(result: rerank_pb2.QueryResult, generation: int) -> Ranking:
    kind = result.WhichOneof("ids")
    ids = getattr(result, kind).ids if kind else [None] * len(result.scores)
    missing_kind = result.WhichOneof("missing")
    documents = []
    for i, score in enumerate(result.scores):
        payload = json.loads(result.payloads[i]) if i < len(result.payloads) and result.payloads[i] else None
        alignment = result.alignments[i] if i < len(result.alignments) else None
        documents.append(
            Document(
                id=ids[i],
                score=score,
                position=result.positions[i],
                payload=payload,
                matches=np.array(alignment.document_tokens, np.int64) if alignment else None,
                similarities=np.array(alignment.similarities, np.float32) if alignment else None,
            )
        )
    missing = list(getattr(result, missing_kind).ids) if missing_kind else []
    return Ranking(documents, missing, generation, result.unavailable_documents)


class _CallDetails(grpc.ClientCallDetails):
    """Those of a call, with other metadata."""

    def __init__(self, details, metadata):
        self.method, self.timeout, self.metadata = details.method, details.timeout, metadata
        self.credentials, self.wait_for_ready = details.credentials, details.wait_for_ready
        self.compression = details.compression


class _Metadata(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Gives every call of a channel these pairs, whichever stub makes it, unless it carries the key already."""

    def __init__(self, pairs):
        self._pairs = pairs

    def _call(self, continuation, details, request):
        metadata = list(details.metadata or ())
        present = {key for key, _ in metadata}
        metadata += [pair for pair in self._pairs if pair[0] not in present]
        return continuation(_CallDetails(details, metadata), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = _call


def _enum(value: str, option: str, names: Mapping[str, int]) -> int:
    if value not in names:
        raise ValueError(f"{option} is {value!r}; it is one of {', '.join(names)}")
    return names[value]


class Client:
    """A connection to maxsimd, or to each of several. Thread-safe. Calls raise grpc.RpcError with the server's code and
    message.

    `reranker` and `admin` are the generated stubs, for everything that has no method here. Their calls carry the token
    and the client's name too; they have no timeout but the one that is given them."""

    def __init__(
        self,
        target: str = "localhost:7070",
        *,
        timeout: float = 30.0,
        admin_timeout: float = 600.0,
        token: Optional[str] = None,
        client_id: Optional[str] = None,
        client_key: str = "x-client-id",
        credentials: Optional[grpc.ChannelCredentials] = None,
        options: Mapping[str, Any] = (),
    ):
        """`target`: host:port, or any gRPC name; where it has several addresses ("dns:///maxsimd:7070",
        "ipv4:10.0.0.1:7070,10.0.0.2:7070"), calls go to them in turn. `timeout`: seconds a call may take, retries
        included; `admin_timeout`: the same for load, reload and unload. `client_id`: whose share of a busy server the
        calls take, in place of this machine's address; sent as the metadata `client_key`, the server's
        batching.client_key. `credentials`: e.g. grpc.ssl_channel_credentials(); without them the connection, and the
        bearer `token`, are not encrypted. `options`: further channel options, which go before those of this class."""
        arguments = {
            "grpc.max_send_message_length": _MAX_MESSAGE_BYTES,
            "grpc.max_receive_message_length": _MAX_MESSAGE_BYTES,
            "grpc.service_config": json.dumps(_RETRIES),
            "grpc.lb_policy_name": "round_robin",
            **dict(options),
        }
        if credentials is None:
            self._channel = grpc.insecure_channel(target, options=list(arguments.items()))
        else:
            self._channel = grpc.secure_channel(target, credentials, options=list(arguments.items()))
        metadata = [("authorization", f"Bearer {token}")] if token else []
        if client_id:
            metadata.append((client_key, client_id))
        channel = grpc.intercept_channel(self._channel, _Metadata(metadata)) if metadata else self._channel
        self._timeout = timeout
        self._admin_timeout = admin_timeout
        self.reranker = rerank_pb2_grpc.RerankerStub(channel)
        self.admin = admin_pb2_grpc.AdminStub(channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def rerank(
        self, collection: str, query: Union[np.ndarray, str], ids: Optional[Sequence[Id]] = None, **options
    ) -> Ranking:
        """Ranks documents by their MaxSim with one query: a [tokens, dim] array, or a text where the server has an
        encoder. See rerank_many for the options."""
        weights = options.pop("weights", None)
        return self.rerank_many(collection, [query], ids, weights=None if weights is None else [weights], **options)[0]

    def rerank_many(
        self,
        collection: str,
        queries: Sequence[Union[np.ndarray, str]],
        ids: Optional[Sequence[Id]] = None,
        *,
        documents: Optional[Sequence[np.ndarray]] = None,
        weights: Optional[Sequence[Sequence[float]]] = None,
        top_k: int = 10,
        payloads: bool = False,
        alignments: bool = False,
        priority: str = "normal",
        missing_policy: str = "report",
        request_id: str = "",
        timeout: Optional[float] = None,
    ) -> List[Ranking]:
        """Ranks the same candidates for several queries: the collection's documents `ids`, all strings or all integers;
        token matrices that come with the call (`documents`); or, with neither, the whole collection. `priority`: "low",
        "normal" or "high". `missing_policy`: "report" lists ids that the collection lacks in Ranking.missing, "fail"
        raises NOT_FOUND. `request_id`: names the call in the server's log."""
        request = rerank_pb2.RerankRequest(
            collection=collection,
            candidates=_candidates(ids, documents),
            top_k=top_k,
            return_payloads=payloads,
            return_alignments=alignments,
            priority=_enum(priority, "priority", _PRIORITIES),
            missing_policy=_enum(missing_policy, "missing_policy", _MISSING_POLICIES),
            request_id=request_id,
        )
        if weights is not None and len(weights) != len(queries):
            raise ValueError(f"{len(weights)} lists of weights for {len(queries)} queries")
        for i, query in enumerate(queries):
            request.queries.append(_query(query, weights[i] if weights is not None else None))
        response = self.reranker.Rerank(request, timeout=timeout or self._timeout)
        return [_ranking(result, response.generation) for result in response.results]

    def info(self) -> rerank_pb2.GetInfoResponse:
        """Version, limits, devices and collections."""
        return self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=self._timeout)

    def collections(self) -> List[rerank_pb2.CollectionInfo]:
        """As Admin lists them, which may want an administrator's token; `info().collections` wants none."""
        return list(self.admin.ListCollections(admin_pb2.ListCollectionsRequest(), timeout=self._timeout).collections)

    # Each of the following is one server's: of several that `target` names, give it the one that is meant. Where the
    # server has `auth.admin_tokens_file`, they want a token of that.

    def load(
        self, name: str, path: str, *, residency: str = "auto", replicate: bool = False
    ) -> rerank_pb2.CollectionInfo:
        """Serves the folder `path`, on the server's machine, as the collection `name`; returns when it is loaded."""
        request = admin_pb2.LoadCollectionRequest(name=name, path=path, residency=residency, replicate=replicate)
        return self.admin.LoadCollection(request, timeout=self._admin_timeout).collection

    def reload(self, name: str) -> bool:
        """Swaps in the generation that is published now; False where it was the one being served."""
        request = admin_pb2.ReloadCollectionRequest(name=name)
        return self.admin.ReloadCollection(request, timeout=self._admin_timeout).changed

    def unload(self, name: str) -> None:
        self.admin.UnloadCollection(admin_pb2.UnloadCollectionRequest(name=name), timeout=self._admin_timeout)
