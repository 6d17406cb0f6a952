"""Tests that maxsimd records each call as the client saw it: the metrics count it once with the answer's code, its span
has the right status, and a rerank call has one log line with the code. Covers both ports, successful answers, and
errors of every layer.

python call_records_test.py FOLDER_OF_THE_PROGRAMS
"""

import http.client
import json
import pathlib
import re
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

import grpc
from opentelemetry.proto.trace.v1 import trace_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from program_fixture import Maxsimd  # noqa: E402
from recorded_calls import (  # noqa: E402
    ADMIN, COUNT, DELETE, EXPLAIN, FACETS, GET, HTTP_CALLS, MAX_BODY, RERANK, ROWS, SCROLL, SEARCH, UPSERT,
)  # fmt: skip
from tracing_fixture import DIM, PATIENCE_S, Collector, Encoder, attributes, traceparent, wire_messages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def code_of(call):
    """Returns the code that a gRPC client gets."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


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
        cls.folder = folder
        cls.common = {
            "encoder__url": f"http://127.0.0.1:{cls.encoder.server_port}",
            "encoder__dialect": "tei",
            "auth__tokens_file": folder / "search",
            "auth__admin_tokens_file": folder / "admin",
        }
        cls.recorded = {
            "tracing__endpoint": f"127.0.0.1:{cls.collector.port}",
            "tracing__sample_ratio": 0,
            "http__max_body_bytes": MAX_BODY,
            "http__max_concurrent_requests": 4,  # two of them with texts
            "log__level": "debug",
            "log__format": "json",
        }
        cls.server = cls.start_server()
        cls.call("Admin/CreateCollection", cls.message("CreateCollectionRequest")(name="docs", dim=DIM), ADMIN)
        cls.call("Documents/Upsert", cls.upsert(), ADMIN)
        cls.num_traces = 0

    @classmethod
    def start(cls, name, **flags):
        server = Maxsimd(PROGRAMS, cls.folder / name, {}, **cls.common, **flags)
        cls.addClassCleanup(server.stop)
        return server

    @classmethod
    def start_server(cls):
        return cls.start("server", store__allowed_roots=cls.folder / "root", **cls.recorded)

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
            call = channel.unary_unary(f"/maxsim.v1.{method}")
            return code_of(lambda: call(data, metadata=metadata, timeout=PATIENCE_S))

    def get_value(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.get_metrics(), re.MULTILINE)[1])

    def get_metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def get_counts(self):
        """Returns how many calls the metrics have counted so far, by (method, code)."""
        text = self.get_metrics()
        lines = re.findall(r'^maxsim_requests_total\{method="(\w+)",code="(\w+)"\} (\S+)$', text, re.MULTILINE)
        lines += [(m, c, v) for c, m, v in re.findall(r'^maxsim_requests_total\{code="(\w+)",method="(\w+)"\} (\S+)$', text, re.MULTILINE)]
        return {(method, code): int(float(value)) for method, code, value in lines}

    def setUp(self):
        self.calls = []  # (name of the span, trace, method, code) of each call whose span tearDown checks
        self.logged = []  # (method, code) of each line that the log must have
        self.num_lines = len(self.get_request_lines())

    def check(self, method, code, span_name, make_call):
        """Makes a call in a new trace, and checks that the metrics count it. tearDown checks the span and the log line
        of the call, because the server sends spans up to a second later."""
        type(self).num_traces += 1
        trace = f"{0xC0000 + self.num_traces:032x}"
        before = self.get_counts()
        make_call(trace)
        limit = time.monotonic() + PATIENCE_S
        # Waits because the text of the metrics may be some milliseconds old.
        while sum((after := self.get_counts()).values()) == sum(before.values()) and time.monotonic() < limit:
            time.sleep(0.002)
        self.assertEqual({k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)}, {(method, code): 1})
        if span_name is not None:
            self.calls.append((f"maxsim.v1.{span_name}", trace, method, code))

    def tearDown(self):
        for name, trace, method, code in self.calls:
            with self.subTest(span=name, method=method, code=code):
                span = self.collector.wait_for([name], trace)[name]
                error = trace_pb2.Status.STATUS_CODE_UNSET if code == "OK" else trace_pb2.Status.STATUS_CODE_ERROR
                self.assertEqual(span.status.code, error, span.status.message)
                if code != "OK":
                    self.assertTrue(span.status.message.startswith(code + ": "), span.status.message)
                # Calls that could not be parsed have no log line.
                if name.startswith(f"maxsim.v1.{RERANK}") and "maxsim.method" in attributes(span):
                    self.logged.append((method, code))
        limit = time.monotonic() + PATIENCE_S
        while len(lines := self.get_request_lines()[self.num_lines :]) < len(self.logged) and time.monotonic() < limit:
            time.sleep(0.01)
        self.assertEqual(sorted((line["method"], line["code"]) for line in lines), sorted(self.logged))

    def get_request_lines(self):
        lines = [json.loads(line) for line in self.server.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == "request"]

    def test_http(self):
        for name, target, body, token, status, code, method, span_name in HTTP_CALLS:

            def post(trace, target=target, body=body, token=token, wanted=(status, code)):
                self.assertEqual(self.http(target, body, token, trace), wanted)

            with self.subTest(name=name):
                self.check(method, code, span_name, post)

    def http(self, target, body, token, trace, **headers):
        """Returns the status, and the code that the body names."""
        headers = {"traceparent": traceparent(trace), **{name.replace("_", "-"): value for name, value in headers.items()}}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        connection.request(*target.split(), body if isinstance(body, str) else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.status == 200:
            return 200, "OK"
        return answer.status, json.loads(data)["error"]["code"] if data else "UNAUTHENTICATED"  # HEAD

    def test_a_compressed_body(self):
        body, wanted = {"query": ROWS, "documents": ["doc-1"]}, (415, "INVALID_ARGUMENT")
        for target, method in (("POST /v1/rerank", "http"), ("POST /v1/explain", "explain")):
            with self.subTest(target):
                post = lambda trace, target=target: self.http(target, body, SEARCH, trace, Content_Encoding="gzip")
                self.check(method, wanted[1], None, lambda trace, post=post: self.assertEqual(post(trace), wanted))

    def test_what_is_no_http(self):
        def send(_):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE_S) as connection:
                connection.sendall(b"nonsense\r\n\r\n")
                self.assertIn(b" 400 ", connection.recv(4096))

        self.check("http_other", "INVALID_ARGUMENT", None, send)

    def test_probes_are_not_counted(self):
        before = self.get_counts()
        for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/"):
            self.http(f"GET {path}", "", "", f"{0xD0000:032x}")
        self.check("http_other", "NOT_FOUND", None, lambda trace: self.http("GET /nowhere", "", "", trace))
        after = self.get_counts()
        self.assertEqual(sum(after.values()), sum(before.values()) + 1, "of two kinds of requests the last alone")

    def test_calls_beyond_the_limit(self):
        """The limit is two calls that wait for the encoder. A third call must be refused."""
        num_before = len(self.encoder.calls)
        num_answered = self.get_counts().get(("http", "OK"), 0)
        self.encoder.gate.clear()
        answers = []

        def post(trace, query):
            return self.http("POST /v1/rerank", {"query": query, "documents": ["doc-1"]}, SEARCH, trace)

        def wait_for_answer(query):
            answers.append(post(f"{0xE0000:032x}", query))

        threads = [threading.Thread(target=wait_for_answer, args=(f"slow question {number}",)) for number in range(2)]
        try:
            for thread in threads:
                thread.start()
            limit = time.monotonic() + PATIENCE_S

            def count_waiting():
                """Returns the number of texts at the encoder and in the queue for it."""
                at_encoder = sum(len(texts) for texts, *_ in self.encoder.calls[num_before:])
                return at_encoder + int(self.get_value("maxsim_encoder_queue_texts"))

            while count_waiting() < 2 and time.monotonic() < limit:
                time.sleep(0.01)
            refused = lambda trace: self.assertEqual(post(trace, "a third"), (429, "RESOURCE_EXHAUSTED"))
            self.check("http", "RESOURCE_EXHAUSTED", None, refused)
        finally:
            self.encoder.gate.set()
            for thread in threads:
                thread.join()
        self.assertEqual(answers, [(200, "OK")] * 2)
        self.logged += [("http", "OK")] * 2
        # Waits until the metrics include these two calls, because the text of the metrics may be some milliseconds old.
        # Otherwise the next check() would count them.
        limit = time.monotonic() + PATIENCE_S
        while self.get_counts().get(("http", "OK"), 0) < num_answered + 2 and time.monotonic() < limit:
            time.sleep(0.01)

    def test_a_deadline(self):
        self.server = self.start(f"{type(self).__name__}-late", http__request_timeout="1s", **self.recorded)
        self.num_lines = 0
        self.encoder.gate.clear()
        self.addCleanup(self.encoder.gate.set)
        body = {"query": "a slow question", "documents": ["a text"]}
        late = lambda trace: self.assertEqual(
            self.http("POST /text/v1/rerank", body, SEARCH, trace), (504, "DEADLINE_EXCEEDED")
        )
        self.check("http", "DEADLINE_EXCEEDED", RERANK, late)

    def test_streams(self):
        """Each request in a stream is counted as a call."""
        nothing = self.message("UpsertRequest")(collection="docs")
        answer = self.message("RerankStreamResponse").FromString
        for method, request, token, code in (
            (f"{RERANK}Stream", self.rerank(), SEARCH, "OK"),
            (f"{RERANK}Stream", self.rerank(collection="no"), SEARCH, "NOT_FOUND"),
            (f"{RERANK}Stream", self.rerank(dim=1), SEARCH, "INVALID_ARGUMENT"),
            (f"{UPSERT}Stream", self.upsert(), ADMIN, "OK"),
            (f"{UPSERT}Stream", nothing, ADMIN, "INVALID_ARGUMENT"),
        ):

            def stream(trace, method=method, request=request, token=token, code=code):
                metadata = [("authorization", f"Bearer {token}"), ("traceparent", traceparent(trace))]
                requests = iter([request.SerializeToString()])
                with grpc.insecure_channel(self.server.address) as channel:
                    if method.startswith(UPSERT):
                        call = channel.stream_unary(f"/maxsim.v1.{method}")
                        self.assertEqual(code_of(lambda: call(requests, metadata=metadata, timeout=PATIENCE_S)), code)
                        return
                    call = channel.stream_stream(f"/maxsim.v1.{method}", response_deserializer=answer)
                    answers = list(call(requests, metadata=metadata, timeout=PATIENCE_S))
                self.assertEqual([CODES[one.code] for one in answers], [code])

            with self.subTest(method=method, code=code):
                self.check(method.split("/")[1], code, method, stream)

    def test_grpc(self):
        get = self.message("GetRequest")(collection="docs")
        get.string_ids.ids.append("doc-1")
        delete = self.message("DeleteRequest")(collection="docs")
        delete.string_ids.ids.append("no")
        nowhere = self.message("GetRequest")(collection="no")
        nowhere.string_ids.ids.append("a")
        unload = self.message("UnloadCollectionRequest")(name="no")
        create = self.message("CreateCollectionRequest")(name="docs", dim=DIM)
        load = self.message("LoadCollectionRequest")(name="more", path=str(self.folder / "root" / "nowhere"))
        compact = self.message("CompactCollectionRequest")(name="no")
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
            (SCROLL, self.message("ScrollRequest")(collection="docs"), SEARCH, "OK", SCROLL),
            (SCROLL, self.message("ScrollRequest")(collection="docs", limit=1001), SEARCH, "INVALID_ARGUMENT", SCROLL),
            (SCROLL, bad, SEARCH, "INVALID_ARGUMENT", None),
            (COUNT, self.message("CountRequest")(collection="docs"), SEARCH, "OK", COUNT),
            (COUNT, self.message("CountRequest")(collection="docs"), "", "UNAUTHENTICATED", None),
            (FACETS, self.message("FacetsRequest")(collection="docs", field="f"), SEARCH, "INVALID_ARGUMENT", FACETS),
            (FACETS, bad, SEARCH, "INVALID_ARGUMENT", None),
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
            ("Admin/CreateCollection", create, ADMIN, "ALREADY_EXISTS", "Admin/CreateCollection"),
            ("Admin/CreateCollection", create, SEARCH, "PERMISSION_DENIED", None),
            ("Admin/LoadCollection", load, ADMIN, "NOT_FOUND", "Admin/LoadCollection"),
            ("Admin/CompactCollection", compact, ADMIN, "NOT_FOUND", "Admin/CompactCollection"),
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


class RouterRecordsTest(CallRecordsTest):
    """Makes the same calls to a router with one group of servers."""

    @classmethod
    def start_server(cls):
        group = cls.start("group", store__allowed_roots=cls.folder / "root")
        groups = f"one={group.address}"
        return cls.start("router", cluster__groups=groups, cluster__token_file=cls.folder / "admin", **cls.recorded)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
