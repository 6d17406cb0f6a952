"""A fake collector of traces and a fake text encoder, which record what maxsimd sends to them."""

import concurrent.futures
import http.client
import http.server
import json
import pathlib
import re
import socket
import subprocess
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
DIM = 8
PATIENCE_S = 20


def traceparent(trace=TRACE, sampled=True):
    return f"00-{trace}-{PARENT}-{'01' if sampled else '00'}"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Stores the spans that servers send to it, and the resource of each span (attributes that describe the sending
    server)."""

    def __init__(self):
        self._changed = threading.Condition()
        self._spans = []
        self.resources = []
        self._services = {}  # names by the ids of their spans
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
                    for span in of_scope.spans:
                        self._services[span.span_id] = self.resources[-1]["service.name"]
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, names, trace=TRACE):
        """Waits until the trace has spans with all of these names. Returns the trace's spans by name."""
        limit = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                found = {span.name: span for span in self._spans if span.trace_id.hex() == trace}
                if set(names) <= set(found):
                    return found
                if not self._changed.wait(limit - time.monotonic()):
                    raise AssertionError(f"of the spans {names} there are {sorted(found)}")

    def wait_for_tree(self, trace, num_spans):
        """Waits until the trace has `num_spans` spans. Returns the spans, and the trace as a sorted list of trees. Each
        tree has the service and name of a span, and the trees of its child spans. Roots are spans whose parent is not
        in the trace."""
        limit = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                spans = [span for span in self._spans if span.trace_id.hex() == trace]
                if len(spans) >= num_spans:
                    break
                if not self._changed.wait(limit - time.monotonic()):
                    raise AssertionError(f"of {num_spans} spans there are {[span.name for span in spans]}")
            children = {}
            for span in spans:
                children.setdefault(span.parent_span_id.hex(), []).append(span)

            def trees_below(parent):
                found = children.get(parent, [])
                return sorted((self._services[s.span_id], s.name, trees_below(s.span_id.hex())) for s in found)

            return spans, trees_below(PARENT)

    def all_spans(self):
        with self._changed:
            return list(self._spans)

    def stop(self):
        self._server.stop(0)


class Encoder(http.server.ThreadingHTTPServer):
    """Answers /embed_all with vectors that depend on the text's length. Stores the headers of the calls."""

    def __init__(self):
        self.calls = []
        self.gate = threading.Event()  # answers wait for it
        self.gate.set()
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
        self.server.gate.wait(PATIENCE_S)
        answer = json.dumps([[[len(text) / 64 + column for column in range(DIM)]] for text in body["inputs"]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        try:
            self.end_headers()
            self.wfile.write(answer)
        except BrokenPipeError:
            pass  # The server has not waited for it.

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
