"""A thin client over the generated stubs of maxsim.v1."""

import dataclasses
import json
from typing import Any, List, Mapping, Optional, Sequence, Union

import grpc
import numpy as np

from maxsim.v1 import admin_pb2, admin_pb2_grpc, rerank_pb2, rerank_pb2_grpc

Id = Union[str, int]

_DTYPES = {np.dtype("float32"): rerank_pb2.DATA_TYPE_F32, np.dtype("float16"): rerank_pb2.DATA_TYPE_F16}
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


def _candidates(ids: Optional[Sequence[Id]], documents: Optional[Sequence[np.ndarray]]) -> rerank_pb2.Candidates:
    if ids is not None and documents is not None:
        raise ValueError("give ids or documents, not both")
    if documents is not None:
        inline = rerank_pb2.InlineDocuments(documents=[token_matrix(document) for document in documents])
        return rerank_pb2.Candidates(inline_documents=inline)
    if ids is None:
        return rerank_pb2.Candidates(whole_collection=rerank_pb2.WholeCollection())
    if isinstance(ids, str):
        raise ValueError("ids is a list of ids; this is one string")
    if all(isinstance(i, str) for i in ids):
        return rerank_pb2.Candidates(string_ids=rerank_pb2.StringIds(ids=ids))
    return rerank_pb2.Candidates(int_ids=rerank_pb2.IntIds(ids=[int(i) for i in ids]))


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


class Client:
    """A connection to one maxsimd. Thread-safe. Calls raise grpc.RpcError with the server's code and message."""

    def __init__(
        self,
        target: str = "localhost:7070",
        *,
        timeout: float = 30.0,
        token: Optional[str] = None,
        client_id: Optional[str] = None,
        credentials: Optional[grpc.ChannelCredentials] = None,
        options: Mapping[str, Any] = (),
    ):
        """`timeout`: seconds a call may take, retries included. `client_id`: whose share of a busy server the calls
        take, in place of this machine's address (the server's batching.client_key, x-client-id). `credentials`: e.g. grpc.ssl_channel_credentials();
        without them the connection, and the bearer `token`, are not encrypted. `options`: further channel options."""
        arguments = {
            "grpc.max_send_message_length": _MAX_MESSAGE_BYTES,
            "grpc.max_receive_message_length": _MAX_MESSAGE_BYTES,
            "grpc.service_config": json.dumps(_RETRIES),
            **dict(options),
        }
        if credentials is None:
            self._channel = grpc.insecure_channel(target, options=list(arguments.items()))
        else:
            self._channel = grpc.secure_channel(target, credentials, options=list(arguments.items()))
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        if client_id:
            self._metadata.append(("x-client-id", client_id))
        self._timeout = timeout
        self.reranker = rerank_pb2_grpc.RerankerStub(self._channel)  # the generated stubs, for everything else
        self.admin = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def rerank(self, collection: str, query: np.ndarray, ids: Optional[Sequence[Id]] = None, **options) -> Ranking:
        """Ranks documents by their MaxSim with one query, a [tokens, dim] array. See rerank_many for the options."""
        weights = options.pop("weights", None)
        return self.rerank_many(collection, [query], ids, weights=None if weights is None else [weights], **options)[0]

    def rerank_many(
        self,
        collection: str,
        queries: Sequence[np.ndarray],
        ids: Optional[Sequence[Id]] = None,
        *,
        documents: Optional[Sequence[np.ndarray]] = None,
        weights: Optional[Sequence[Sequence[float]]] = None,
        top_k: int = 10,
        payloads: bool = False,
        alignments: bool = False,
        timeout: Optional[float] = None,
    ) -> List[Ranking]:
        """Ranks the same candidates for several queries: the collection's documents `ids`, token matrices that come
        with the call (`documents`), or, with neither, the whole collection."""
        request = rerank_pb2.RerankRequest(
            collection=collection,
            candidates=_candidates(ids, documents),
            top_k=top_k,
            return_payloads=payloads,
            return_alignments=alignments,
        )
        if weights is not None and len(weights) != len(queries):
            raise ValueError(f"{len(weights)} lists of weights for {len(queries)} queries")
        for i, query in enumerate(queries):
            request.queries.add(tokens=token_matrix(query), weights=weights[i] if weights is not None else None)
        response = self.reranker.Rerank(request, timeout=timeout or self._timeout, metadata=self._metadata)
        return [_ranking(result, response.generation) for result in response.results]

    def info(self) -> rerank_pb2.GetInfoResponse:
        """Version, limits, devices and collections."""
        return self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=self._timeout, metadata=self._metadata)

    def collections(self) -> List[rerank_pb2.CollectionInfo]:
        response = self.admin.ListCollections(
            admin_pb2.ListCollectionsRequest(), timeout=self._timeout, metadata=self._metadata
        )
        return list(response.collections)
