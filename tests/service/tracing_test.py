"""Tests the traces that maxsimd sends to a collector, which decodes them with the public package opentelemetry-proto.

A gRPC or HTTP call must join the trace that its traceparent names. The spans of a call's steps must have the right
parents and not overlap. The server must pass the trace on to the encoder, and a router to its servers. If the collector
is down, calls must work as before, and the server must count the spans that are lost.

python tracing_test.py FOLDER_OF_THE_PROGRAMS
"""

import http.client
import json
import pathlib
import struct
import sys
import tempfile
import time
import unittest

import grpc
from opentelemetry.proto.trace.v1 import trace_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from program_fixture import Maxsimd  # noqa: E402
from tracing_fixture import (  # noqa: E402
    DIM,
    PARENT,
    PATIENCE_S,
    STATE,
    Collector,
    Encoder,
    attributes,
    closed_port,
    counter,
    traceparent,
    wire_messages,
)

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
Span = trace_pb2.Span


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
        """Calls a method of maxsim.v1 by gRPC and returns the answer."""
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
        """Checks that the spans are children of `outer`, and that each begins no earlier than the previous one
        ended."""
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

    def start_cluster(self):
        """Starts a router over two groups of one server each, and creates a live collection of twenty documents."""
        endpoint, servers = f"127.0.0.1:{self.collector.port}", []
        for part in range(2):
            (self.folder / f"root-{part}").mkdir()
            flags = {"cluster__partition": f"{part}/2", "store__allowed_roots": self.folder / f"root-{part}"}
            servers.append(self.start(f"part-{part}", endpoint, tracing__service_name=f"server {part}", **flags))
            self.addCleanup(servers[-1].stop)
        groups = ",".join(f"group-{part}={server.address}" for part, server in enumerate(servers))
        router = self.start("router", endpoint, tracing__service_name="router", cluster__groups=groups)
        self.addCleanup(router.stop)
        request = self.message("CreateCollectionRequest")(name="docs", dim=DIM)
        self.call("Admin/CreateCollection", request, self.message("CreateCollectionResponse"), server=router)
        return router, servers

    def upsert_request(self):
        request = self.message("UpsertRequest")(collection="docs")
        for number in range(20):
            values = struct.pack(f"<{DIM}f", *range(number, number + DIM))
            request.documents.add(string_id=f"doc-{number}").tokens.CopyFrom(
                self.message("TokenMatrix")(dtype=1, num_tokens=1, dim=DIM, data=values)
            )
        return request

    def test_a_request_to_a_router_is_one_trace_through_all_servers(self):
        router, servers = self.start_cluster()
        scan = self.message("RerankRequest")(collection="docs", top_k=3)
        scan.queries.add(text="a question to a router")
        scan.candidates.whole_collection.SetInParent()
        one = self.message("RerankRequest")(collection="docs")
        one.queries.add(text="another question to a router")
        one.candidates.string_ids.ids.append("doc-0")
        read = self.message("GetRequest")(collection="docs")
        read.string_ids.ids.extend(f"doc-{number}" for number in range(20))
        scoring = [("queue", []), ("score", [])]
        # Each row: the method, its request, whether the router sends a text to the encoder, the spans for steps within
        # each server, and how many servers are called.
        calls = [
            ("Documents/Upsert", self.upsert_request(), False, [], 2),
            ("Reranker/Rerank", scan, True, scoring, 2),
            ("Documents/Get", read, False, [], 2),
            ("Documents/Scroll", self.message("ScrollRequest")(collection="docs"), False, [], 2),
            ("Documents/Count", self.message("CountRequest")(collection="docs"), False, [], 2),
            ("Reranker/Explain", one, True, [], 1),
        ]
        for index, (method, request, encodes, parts, num_servers) in enumerate(calls):
            with self.subTest(method=method):
                trace = f"{0xA0 + index:032x}"
                metadata = [("traceparent", traceparent(trace)), ("tracestate", STATE)]
                answer = self.message(method.split("/")[1] + "Response")
                self.call(method, request, answer, metadata, router)
                num_spans = 1 + encodes + num_servers * (2 + len(parts))
                spans, trees = self.collector.wait_for_tree(trace, num_spans)
                self.assertEqual({span.trace_state for span in spans}, {STATE})
                asked = {attributes(span)["maxsim.group"]: span for span in spans if span.name == "group_call"}
                self.assertEqual(len(asked), num_servers)
                below = [("router", "encode", [])] if encodes else []
                for group, span in sorted(asked.items()):
                    part = int(group.removeprefix("group-"))
                    self.assertEqual(span.kind, Span.SPAN_KIND_CLIENT)
                    said = attributes(span)
                    wanted = {"replica": servers[part].address, "attempt": 0, "hedge": False}
                    self.assertEqual({key: said[f"maxsim.{key}"] for key in wanted}, wanted)
                    theirs = [(f"server {part}", *one) for one in parts]
                    below.append(("router", "group_call", [(f"server {part}", f"maxsim.v1.{method}", theirs)]))
                self.assertEqual(trees, [("router", f"maxsim.v1.{method}", below)])
                call = next(span for span in spans if span.parent_span_id.hex() == PARENT)
                for span in asked.values():
                    self.assert_within(call, *[s for s in spans if s.name == "encode"], span)

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
            # Before it ends, the server sends the spans that still wait.
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
            # Each call has three spans. More than one span per call must have been dropped; the others may still wait
            # to be sent.
            self.assertGreater(dropped, num_calls)
            self.assertEqual(counter(server, "maxsim_spans_exported_total"), 0)
        finally:
            self.assertEqual(server.stop(), 0)
        self.assertIn("traces_are_not_taken", server.log())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
