"""A server in this process that keeps the documents it is sent."""

import numpy as np

from client_fixture import serve

from maxsim import Retry  # noqa: E402
from maxsim.v1 import documents_pb2  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402

TOKENS = np.arange(24, dtype=np.float16).reshape(3, 8)
APPLIED, STALE, NOT_FOUND = 1, 2, 3
QUICK = Retry(max_attempts=3, initial_backoff=0.01, max_backoff=0.02)


class FakeDocuments:
    """A live collection of documents without vectors."""

    def __init__(self, test, max_request_bytes=1 << 20, **methods):
        self.requests, self.num_infos, self.sequence, self.held = [], 0, 0, {}
        self.max_request_bytes = max_request_bytes
        own = {name: getattr(self, name) for name in ("GetInfo", "Upsert", "UpsertStream", "Delete", "Get")}
        self.address = f"127.0.0.1:{serve(test, **{**own, **methods})}"

    def GetInfo(self, request, context):
        self.num_infos += 1
        return pb.GetInfoResponse(limits=pb.Limits(max_request_bytes=self.max_request_bytes))

    def write(self, document):
        id = document.string_id or document.int_id
        if document.version and id in self.held and self.held[id].version >= document.version:
            return documents_pb2.WriteResult(outcome=STALE)
        self.held[id] = document
        self.sequence += 1
        return documents_pb2.WriteResult(outcome=APPLIED, sequence=self.sequence)

    def Upsert(self, request, context):
        self.requests.append(request)
        results = [self.write(document) for document in request.documents]
        texts = sum(bool(document.text) for document in request.documents)
        return documents_pb2.UpsertResponse(results=results, sequence=self.sequence, encoded_tokens=10 * texts)

    def UpsertStream(self, requests, context):
        summary = documents_pb2.UpsertStreamResponse()
        for request in requests:
            results = self.Upsert(request, context).results
            summary.num_requests += 1
            summary.num_applied += sum(result.outcome == APPLIED for result in results)
            summary.num_stale += sum(result.outcome == STALE for result in results)
        summary.sequence = self.sequence
        return summary

    def Delete(self, request, context):
        self.requests.append(request)
        response = documents_pb2.DeleteResponse()
        for id in request.string_ids.ids or request.int_ids.ids:
            found = self.held.pop(id, None)
            self.sequence += found is not None
            response.results.add(outcome=APPLIED if found else NOT_FOUND, sequence=self.sequence if found else 0)
        response.sequence = self.sequence
        return response

    def Get(self, request, context):
        self.requests.append(request)
        response = documents_pb2.GetResponse(generation=4, sequence=self.sequence)
        for id in request.string_ids.ids:
            if id not in self.held:
                response.missing_string_ids.ids.append(id)
                continue
            held = self.held[id]
            tokens = held.tokens if request.return_tokens else None
            one = documents_pb2.StoredDocument(
                string_id=id, num_tokens=held.tokens.num_tokens, payload=held.payload, version=held.version
            )
            if tokens:
                one.tokens.CopyFrom(tokens)
            one.sequence = 7
            response.documents.append(one)
        return response
