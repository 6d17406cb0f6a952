"""Tests that maxsimd records a call as its client saw it: one count with the answer's code, one span with its status
and, for a rerank call, a log line with its code. On both ports, for answers and for errors from every layer.

python call_records_test.py FOLDER_OF_THE_PROGRAMS
"""

import http.client
import json
import pathlib
import re
import struct
import sys
import tempfile
import time
import unittest

import grpc
from opentelemetry.proto.trace.v1 import trace_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from program_fixture import Maxsimd  # noqa: E402
from tracing_fixture import DIM, PATIENCE_S, Collector, Encoder, attributes, traceparent, wire_messages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SEARCH, ADMIN = "token-for-searching", "token-for-everything"
ROWS = [[1.0] * DIM]
TEXTS = ["first unknown", "second unknown"]
RERANK, EXPLAIN = "Reranker/Rerank", "Reranker/Explain"
UPSERT, DELETE, GET = "Documents/Upsert", "Documents/Delete", "Documents/Get"
DOCUMENTS = "/v1/collections/docs/documents"
MAX_BODY = 64 << 10

# Name of the case; method and path; body (JSON unless it is text); token; status and code that the client gets; the
# method's name in the metrics; name of the span (None: no span).
HTTP_CALLS = [
    ("vectors", "POST /v1/rerank", {"query": ROWS, "documents": ["doc-1", "doc-2"]}, SEARCH, 200, "OK", "http", RERANK),
    ("texts as ids", "POST /v1/rerank", {"query": "why", "documents": TEXTS}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("texts as ids, v2", "POST /v2/rerank", {"query": "why", "documents": TEXTS}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("unknown id, TEI", "POST /rerank", {"query": ROWS, "texts": ["doc-1", "no"]}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("unknown model", "POST /v1/rerank", {"model": "no", "query": ROWS, "documents": ["doc-1"]}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("no JSON", "POST /v1/rerank", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("wrong member", "POST /text/v1/rerank", {"query": ROWS, "documents": []}, SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("wrong width", "POST /v1/rerank", {"query": [[1.0]], "documents": ["doc-1"]}, SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("no token", "POST /v1/rerank", {"query": ROWS, "documents": ["doc-1"]}, "", 401, "UNAUTHENTICATED", "http", None),
    ("too large", "POST /v1/rerank", "x" * (MAX_BODY + 1), SEARCH, 413, "INVALID_ARGUMENT", "http", None),
    ("explain", "POST /v1/explain", {"query": ROWS, "id": "doc-1"}, SEARCH, 200, "OK", "explain", EXPLAIN),
    ("explain unknown", "POST /v1/explain", {"query": ROWS, "id": "no"}, SEARCH, 404, "NOT_FOUND", "explain", EXPLAIN),
    ("explain no JSON", "POST /v1/explain", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "explain", EXPLAIN),
    ("explain no token", "POST /v1/explain", {"query": ROWS, "id": "doc-1"}, "", 401, "UNAUTHENTICATED", "explain", None),
    ("read one", f"GET {DOCUMENTS}/doc-1", "", SEARCH, 200, "OK", "http_get", GET),
    ("read one unknown", f"GET {DOCUMENTS}/no", "", SEARCH, 404, "NOT_FOUND", "http_get", GET),
    ("read", f"POST {DOCUMENTS}/get", {"ids": ["doc-1", "no"]}, SEARCH, 200, "OK", "http_get", GET),
    ("read no JSON", f"POST {DOCUMENTS}/get", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http_get", GET),
    ("read no collection", "GET /v1/collections/no/documents/a", "", SEARCH, 404, "NOT_FOUND", "http_get", GET),
    ("write", f"PUT {DOCUMENTS}", {"documents": [{"id": "new", "tokens": ROWS}]}, ADMIN, 200, "OK", "http_upsert", UPSERT),
    ("write no JSON", f"PUT {DOCUMENTS}", "nonsense", ADMIN, 400, "INVALID_ARGUMENT", "http_upsert", UPSERT),
    ("write wrong", f"PUT {DOCUMENTS}", {"documents": [{"id": "new", "tokens": [[1.0]]}]}, ADMIN, 400, "INVALID_ARGUMENT", "http_upsert", UPSERT),
    ("write forbidden", f"PUT {DOCUMENTS}", {"documents": []}, SEARCH, 403, "PERMISSION_DENIED", "http_upsert", None),
    ("delete", f"DELETE {DOCUMENTS}", {"ids": ["new"]}, ADMIN, 200, "OK", "http_delete", DELETE),
    ("delete no JSON", f"DELETE {DOCUMENTS}", "nonsense", ADMIN, 400, "INVALID_ARGUMENT", "http_delete", DELETE),
]  # fmt: skip


class CallRecordsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-records-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        cls.message = staticmethod(wire_messages(folder))
        cls.collector, cls.encoder = Collector(), Encoder()
        cls.addClassCleanup(cls.collector.stop)
        cls.addClassCleanup(cls.encoder.stop)
        for name, token in (("search", SEARCH), ("admin", ADMIN)):
            (folder / name).write_text(token + "\n")
        (folder / "root").mkdir()
        cls.server = Maxsimd(
            PROGRAMS,
            folder / "server",
            {},
            tracing__endpoint=f"127.0.0.1:{cls.collector.port}",
            tracing__sample_ratio=0,
            encoder__url=f"http://127.0.0.1:{cls.encoder.server_port}",
            encoder__dialect="tei",
            auth__tokens_file=folder / "search",
            auth__admin_tokens_file=folder / "admin",
            store__allowed_roots=folder / "root",
            http__max_body_bytes=MAX_BODY,
            log__level="debug",
            log__format="json",
        )
        cls.addClassCleanup(cls.server.stop)
        cls.call("Admin/CreateCollection", cls.message("CreateCollectionRequest")(name="docs", dim=DIM), ADMIN)
        cls.call("Documents/Upsert", cls.upsert(), ADMIN)
        cls.num_traces = 0

    @classmethod
    def upsert(cls):
        request = cls.message("UpsertRequest")(collection="docs")
        for number in range(3):
            request.documents.add(string_id=f"doc-{number}").tokens.CopyFrom(cls.matrix(DIM))
        return request

    @classmethod
    def matrix(cls, dim):
        return cls.message("TokenMatrix")(dtype=1, num_tokens=1, dim=dim, data=struct.pack(f"<{dim}f", *range(dim)))

    @classmethod
    def rerank(cls, ids=("doc-1",), dim=DIM, collection="docs", **fields):
        request = cls.message("RerankRequest")(collection=collection, top_k=2, **fields)
        request.queries.add().tokens.CopyFrom(cls.matrix(dim))
        request.candidates.string_ids.ids.extend(ids)
        return request

    @classmethod
    def call(cls, method, request, token, trace=None):
        """Returns the code that a gRPC client gets. `request` is a message or bytes."""
        metadata = [("authorization", f"Bearer {token}")] if token else []
        if trace is not None:
            metadata.append(("traceparent", traceparent(trace)))
        data = request if isinstance(request, bytes) else request.SerializeToString()
        with grpc.insecure_channel(cls.server.address) as channel:
            try:
                channel.unary_unary(f"/maxsim.v1.{method}")(data, metadata=metadata, timeout=PATIENCE_S)
            except grpc.RpcError as error:
                return error.code().name
        return "OK"

    def get_counts(self):
        """Returns the number of calls that the metrics have counted so far, by method and code."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        lines = re.findall(r'^maxsim_requests_total\{method="(\w+)",code="(\w+)"\} (\S+)$', text, re.MULTILINE)
        lines += [(m, c, v) for c, m, v in re.findall(r'^maxsim_requests_total\{code="(\w+)",method="(\w+)"\} (\S+)$', text, re.MULTILINE)]
        return {(method, code): int(float(value)) for method, code, value in lines}

    def check(self, method, code, span_name, make_call):
        """Makes a call in its own trace, and checks everything that is recorded about it."""
        type(self).num_traces += 1
        trace = f"{0xC0000 + self.num_traces:032x}"
        before = self.get_counts()
        num_lines = len(self.get_request_lines())
        make_call(trace)
        limit = time.monotonic() + PATIENCE_S
        # The text of the metrics may be some milliseconds old.
        while sum((after := self.get_counts()).values()) == sum(before.values()) and time.monotonic() < limit:
            pass
        self.assertEqual({k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)}, {(method, code): 1})
        if span_name is None:
            return
        span = self.collector.wait_for([f"maxsim.v1.{span_name}"], trace)[f"maxsim.v1.{span_name}"]
        error = trace_pb2.Status.STATUS_CODE_UNSET if code == "OK" else trace_pb2.Status.STATUS_CODE_ERROR
        self.assertEqual(span.status.code, error, span.status.message)
        if code != "OK":
            self.assertTrue(span.status.message.startswith(code + ": "), span.status.message)
        # Calls that could not be parsed have no log line.
        if span_name == RERANK and "maxsim.method" in attributes(span):
            lines = self.get_request_lines()[num_lines:]
            self.assertEqual([(line["method"], line["code"]) for line in lines], [(method, code)])

    def get_request_lines(self):
        lines = [json.loads(line) for line in self.server.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == "request"]

    def test_http(self):
        for name, target, body, token, status, code, method, span_name in HTTP_CALLS:

            def post(trace, target=target, body=body, token=token, status=status, code=code):
                headers = {"traceparent": traceparent(trace)}
                if token:
                    headers["Authorization"] = f"Bearer {token}"
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
                connection.request(*target.split(), body if isinstance(body, str) else json.dumps(body), headers)
                answer = connection.getresponse()
                data = answer.read()
                connection.close()
                self.assertEqual(answer.status, status, data)
                if code != "OK":
                    self.assertEqual(json.loads(data)["error"]["code"], code)

            with self.subTest(name=name):
                self.check(method, code, span_name, post)

    def test_grpc(self):
        get = self.message("GetRequest")(collection="docs")
        get.string_ids.ids.append("doc-1")
        delete = self.message("DeleteRequest")(collection="docs")
        delete.string_ids.ids.append("no")
        nowhere = self.message("GetRequest")(collection="no")
        nowhere.string_ids.ids.append("a")
        unload = self.message("UnloadCollectionRequest")(name="no")
        bad = b"\xff\xff\xff"
        cases = [
            (RERANK, self.rerank(), SEARCH, "OK", RERANK),
            (RERANK, self.rerank(collection="no"), SEARCH, "NOT_FOUND", RERANK),
            (RERANK, self.rerank(["no"], missing_policy=2), SEARCH, "NOT_FOUND", RERANK),
            (RERANK, self.rerank(dim=1), SEARCH, "INVALID_ARGUMENT", RERANK),
            (RERANK, bad, SEARCH, "INVALID_ARGUMENT", None),
            (RERANK, self.rerank(), "", "UNAUTHENTICATED", None),
            (EXPLAIN, self.rerank(), SEARCH, "OK", EXPLAIN),
            (EXPLAIN, self.rerank(["no"]), SEARCH, "NOT_FOUND", EXPLAIN),
            (EXPLAIN, bad, SEARCH, "INVALID_ARGUMENT", None),
            (GET, get, SEARCH, "OK", GET),
            (GET, nowhere, SEARCH, "NOT_FOUND", GET),
            (GET, bad, SEARCH, "INVALID_ARGUMENT", None),
            (UPSERT, self.upsert(), ADMIN, "OK", UPSERT),
            (UPSERT, self.upsert(), SEARCH, "PERMISSION_DENIED", None),
            (UPSERT, self.message("UpsertRequest")(collection="docs"), ADMIN, "INVALID_ARGUMENT", UPSERT),
            (DELETE, delete, ADMIN, "OK", DELETE),
            (DELETE, bad, ADMIN, "INVALID_ARGUMENT", None),
            ("Reranker/GetInfo", b"", SEARCH, "OK", None),
            ("Reranker/GetInfo", b"", "", "UNAUTHENTICATED", None),
            ("Admin/ListCollections", b"", ADMIN, "OK", "Admin/ListCollections"),
            ("Admin/ListCollections", b"", SEARCH, "PERMISSION_DENIED", None),
            ("Admin/UnloadCollection", unload, ADMIN, "NOT_FOUND", "Admin/UnloadCollection"),
            ("Admin/UnloadCollection", bad, ADMIN, "INVALID_ARGUMENT", None),
        ]
        for method, request, token, code, span_name in cases:
            with self.subTest(method=method, code=code):
                self.check(
                    method.split("/")[1],
                    code,
                    span_name,
                    lambda trace, call=(method, request, token), code=code: self.assertEqual(self.call(*call, trace), code),
                )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
