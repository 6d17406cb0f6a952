"""Traces of maxsimd as a collector gets them, which decodes with the public package opentelemetry-proto: calls by gRPC and
by HTTP are in the trace of their traceparent, their parts have the right parents and follow each other, and the encoder
is told of the trace. A collector that is down costs nothing but spans that are counted.

python tracing_test.py FOLDER_OF_THE_PROGRAMS
"""

import concurrent.futures
import http.client
import http.server
import json
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from program_fixture import Maxsimd  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
DIM = 8
PATIENCE_S = 20
Span = trace_pb2.Span


def traceparent(trace=TRACE, sampled=True):
    return f"00-{trace}-{PARENT}-{'01' if sampled else '00'}"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans that it is sent, and the resource that they came from."""

    def __init__(self):
        self._changed = threading.Condition()
        self._spans = []
        self.resources = []
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request, context):
        with self._changed:
            for of_service in request.resource_spans:
                self.resources.append({a.key: a.value.string_value for a in of_service.resource.attributes})
                for of_scope in of_service.scope_spans:
                    self._spans.extend(of_scope.spans)
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, names, trace=TRACE):
        """The spans of a trace by their name, once those of these names are there."""
        limit = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                found = {span.name: span for span in self._spans if span.trace_id.hex() == trace}
                if set(names) <= set(found):
                    return found
                if not self._changed.wait(limit - time.monotonic()):
                    raise AssertionError(f"of the spans {names} there are {sorted(found)}")

    def all_spans(self):
        with self._changed:
            return list(self._spans)

    def stop(self):
        self._server.stop(0)


class Encoder(http.server.ThreadingHTTPServer):
    """Answers /embed_all with vectors that depend on a text's length, and keeps the headers of its calls."""

    def __init__(self):
        self.calls = []
        super().__init__(("127.0.0.1", 0), EncoderHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()


class EncoderHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((body["inputs"], self.headers["traceparent"], self.headers["tracestate"]))
        answer = json.dumps([[[len(text) / 64 + column for column in range(DIM)]] for text in body["inputs"]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def wire_messages(folder):
    """The messages of maxsim.v1 by their name."""
    path = pathlib.Path(folder) / "maxsim.pb"
    files = ["maxsim/v1/rerank.proto", "maxsim/v1/documents.proto", "maxsim/v1/admin.proto"]
    subprocess.run(["protoc", "-I", ROOT / "proto", "--include_imports", "-o", path, *files], check=True)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"maxsim.v1.{name}"))


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def counter(server, series):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return float(re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)[1])


class TracingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-tracing-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.message = staticmethod(wire_messages(cls.folder))
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.stop)
        cls.encoder = Encoder()
        cls.addClassCleanup(cls.encoder.stop)
        cls.server = cls.start("server", f"127.0.0.1:{cls.collector.port}")
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def start(cls, name, endpoint, **flags):
        return Maxsimd(
            PROGRAMS,
            cls.folder / name,
            {},
            tracing__endpoint=endpoint,
            tracing__sample_ratio=0,
            encoder__url=f"http://127.0.0.1:{cls.encoder.server_port}",
            encoder__dialect="tei",
            encoder__cache_bytes=0,
            **flags,
        )

    def call(self, method, request, answer, metadata=(), server=None):
        """The answer of a method of maxsim.v1 that is called by gRPC."""
        with grpc.insecure_channel((server or self.server).address) as channel:
            stub = channel.unary_unary(
                f"/maxsim.v1.{method}", request_serializer=lambda m: m.SerializeToString(), response_deserializer=answer.FromString
            )
            return stub(request, metadata=metadata, timeout=PATIENCE_S)

    def rerank_request(self, **fields):
        request = self.message("RerankRequest")(**fields)
        values = struct.pack(f"<{DIM}f", *range(DIM))
        matrix = {"dtype": 1, "num_tokens": 1, "dim": DIM, "data": values}
        request.queries.add().tokens.CopyFrom(self.message("TokenMatrix")(**matrix))
        for _ in range(3):
            request.candidates.inline_documents.documents.add(**matrix)
        return request

    def rerank(self, metadata=(), server=None, **fields):
        return self.call("Reranker/Rerank", self.rerank_request(**fields), self.message("RerankResponse"), metadata, server)

    def post(self, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        self.assertEqual(answer.status, 200, data)
        return json.loads(data)

    def assert_within(self, outer, *spans):
        """The spans are children of `outer`, one after another."""
        begin = outer.start_time_unix_nano
        for span in spans:
            self.assertEqual(span.trace_id, outer.trace_id)
            self.assertEqual(span.parent_span_id, outer.span_id)
            self.assertLessEqual(begin, span.start_time_unix_nano, span.name)
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano, span.name)
            begin = span.end_time_unix_nano
        self.assertLessEqual(begin, outer.end_time_unix_nano)

    def test_a_call_by_grpc_is_in_its_callers_trace(self):
        before = time.time_ns()
        self.rerank([("traceparent", traceparent()), ("tracestate", STATE)], request_id="by grpc", top_k=2)
        after = time.time_ns()
        spans = self.collector.wait_for(["maxsim.v1.Reranker/Rerank", "queue", "score"])
        call = spans["maxsim.v1.Reranker/Rerank"]
        self.assertEqual(call.parent_span_id.hex(), PARENT)
        self.assertEqual(call.trace_state, STATE)
        self.assertEqual(call.kind, Span.SPAN_KIND_SERVER)
        self.assertEqual(call.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        self.assertTrue(before <= call.start_time_unix_nano <= call.end_time_unix_nano <= after)
        self.assert_within(call, spans["queue"], spans["score"])
        said = attributes(call)
        wanted = {"request_id": "by grpc", "method": "Rerank", "candidates": "inline_documents", "queries": 1, "top_k": 2}
        self.assertEqual({key: said[f"maxsim.{key}"] for key in wanted}, wanted)
        self.assertGreater(said["maxsim.kernel_us"], 0)
        self.assertEqual(self.collector.resources[0]["service.name"], "maxsimd")

    def test_a_call_by_http_takes_the_encoder_along(self):
        trace = "0" * 31 + "1"
        body = {"query": "a question", "documents": ["one text", "another text"]}
        self.post("/text/v1/rerank", body, {"traceparent": traceparent(trace), "tracestate": STATE})
        spans = self.collector.wait_for(["maxsim.v1.Reranker/Rerank", "encode", "queue", "score"], trace)
        call = spans["maxsim.v1.Reranker/Rerank"]
        self.assertEqual(call.parent_span_id.hex(), PARENT)
        self.assertEqual(attributes(call)["maxsim.method"], "http")
        self.assertGreater(attributes(call)["maxsim.encode_us"], 0)
        self.assert_within(call, spans["encode"], spans["queue"], spans["score"])
        self.assertEqual(spans["encode"].kind, Span.SPAN_KIND_CLIENT)
        wanted = (f"00-{trace}-{spans['encode'].span_id.hex()}-01", STATE)
        seen = [headers for texts, *headers in self.encoder.calls if set(texts) & {"a question", "one text"}]
        self.assertEqual({tuple(headers) for headers in seen}, {wanted})

    def test_each_request_of_a_stream_has_a_span(self):
        trace = "0" * 31 + "2"
        requests = [self.rerank_request(request_id=f"stream {i}") for i in range(3)]
        with grpc.insecure_channel(self.server.address) as channel:
            stub = channel.stream_stream(
                "/maxsim.v1.Reranker/RerankStream",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=self.message("RerankStreamResponse").FromString,
            )
            answers = list(stub(iter(requests), metadata=[("traceparent", traceparent(trace))], timeout=PATIENCE_S))
        self.assertEqual(len(answers), 3)
        limit = time.monotonic() + PATIENCE_S
        ids = set()
        while len(ids) < 3 and time.monotonic() < limit:
            time.sleep(0.05)
            calls = [s for s in self.collector.all_spans() if s.trace_id.hex() == trace and s.kind == Span.SPAN_KIND_SERVER]
            ids = {attributes(call)["maxsim.request_id"] for call in calls}
        self.assertEqual(ids, {"stream 0", "stream 1", "stream 2"})
        self.assertEqual({call.parent_span_id.hex() for call in calls}, {PARENT})
        self.assertEqual({call.name for call in calls}, {"maxsim.v1.Reranker/RerankStream"})

    def test_an_error_is_the_spans_status(self):
        trace = "0" * 31 + "3"
        metadata = [("traceparent", traceparent(trace))]
        with self.assertRaises(grpc.RpcError):
            self.rerank(metadata, top_k=10**6)
        request = self.message("GetRequest")(collection="nobody")
        with self.assertRaises(grpc.RpcError):
            self.call("Documents/Get", request, self.message("GetResponse"), metadata)
        request = self.message("UnloadCollectionRequest")(name="nobody")
        with self.assertRaises(grpc.RpcError):
            self.call("Admin/UnloadCollection", request, self.message("UnloadCollectionResponse"), metadata)
        wanted = {
            "maxsim.v1.Reranker/Rerank": "INVALID_ARGUMENT: top_k",
            "maxsim.v1.Documents/Get": "NOT_FOUND: ",
            "maxsim.v1.Admin/UnloadCollection": "NOT_FOUND: ",
        }
        spans = self.collector.wait_for(wanted, trace)
        for name, message in wanted.items():
            self.assertEqual(spans[name].status.code, trace_pb2.Status.STATUS_CODE_ERROR, name)
            self.assertTrue(spans[name].status.message.startswith(message), spans[name].status.message)
            self.assertEqual(spans[name].parent_span_id.hex(), PARENT)

    def test_what_is_not_sampled_is_not_sent_and_the_encoder_hears_of_it(self):
        trace = "0" * 31 + "4"
        body = {"query": "an unsampled question", "documents": ["an unsampled text"]}
        self.post("/text/v1/rerank", body, {"traceparent": traceparent(trace, sampled=False)})
        # This server's tracing.sample_ratio is 0.
        self.rerank(request_id="no parent")
        self.rerank([("traceparent", "00-wrong")], request_id="no parent")
        last = "0" * 31 + "5"
        self.rerank([("traceparent", traceparent(last))])
        self.collector.wait_for(["maxsim.v1.Reranker/Rerank"], last)
        spans = self.collector.all_spans()
        self.assertNotIn(trace, {span.trace_id.hex() for span in spans})
        self.assertNotIn("no parent", {attributes(span).get("maxsim.request_id") for span in spans})
        seen = {parent for texts, parent, _ in self.encoder.calls if "an unsampled question" in texts}
        self.assertEqual(seen, {traceparent(trace, sampled=False)})

    def test_every_call_is_traced_at_a_ratio_of_one(self):
        server = Maxsimd(
            PROGRAMS,
            self.folder / "all",
            {},
            tracing__endpoint=f"http://127.0.0.1:{self.collector.port}",
            tracing__sample_ratio=1,
            tracing__service_name="every call",
        )
        try:
            self.rerank(server=server, request_id="without a parent")
        finally:
            # What waits is sent before the server ends.
            self.assertEqual(server.stop(), 0)
        ours = [s for s in self.collector.all_spans() if attributes(s).get("maxsim.request_id") == "without a parent"]
        self.assertEqual(len(ours), 1)
        self.assertEqual(ours[0].parent_span_id, b"")
        self.assertIn("every call", {resource["service.name"] for resource in self.collector.resources})

    def test_a_collector_that_is_down_costs_spans_that_are_counted(self):
        server = self.start("down", f"127.0.0.1:{closed_port()}", tracing__max_queued_spans=2)
        try:
            num_calls = 50
            for _ in range(num_calls):
                self.rerank([("traceparent", traceparent())], server=server)
            dropped = counter(server, 'maxsim_spans_dropped_total{reason="queue_full"}')
            # A call has three spans; some wait in the queue and some with the thread that sends.
            self.assertGreater(dropped, num_calls)
            self.assertEqual(counter(server, "maxsim_spans_exported_total"), 0)
        finally:
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("traces_are_not_taken", server.log())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
