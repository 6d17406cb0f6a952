"""A proxy that forwards unary calls to a maxsimd, but refuses as many calls as a case says. It records when calls
arrive, so that a test sees how often, and after which delays, a client retries."""

import concurrent.futures
import http.server
import threading
import time
import urllib.error
import urllib.request

import grpc

import wire_details

HTTP_STATUS = {"UNAVAILABLE": 503, "RESOURCE_EXHAUSTED": 429, "INVALID_ARGUMENT": 400, "INTERNAL": 500}
# For each method, the ends of its gRPC path and of its HTTP path.
PATHS = {
    "rerank": ("/Rerank", "/rerank"),
    "explain": ("/Explain", "/explain"),
    "get": ("/Get", "/documents/get"),
    "count": ("/Count", "/count"),
    "upsert": ("/Upsert", "PUT /v1/collections/notes/documents"),
    "delete": ("/Delete", "DELETE /v1/collections/notes/documents"),
    "info": ("/GetInfo", "GET /v1/collections"),
}
DETAILS_KEY, PUSHBACK_KEY = "grpc-status-details-bin", "grpc-retry-pushback-ms"


class RefusingProxy:
    """Listens for gRPC at `address`, and for HTTP at `url`."""

    def __init__(self, target, target_url):
        self._channel = grpc.insecure_channel(target)
        self._target_url = target_url
        self._lock = threading.Lock()
        self._refusal, self._left, self._times, self._paths = {}, 0, [], ()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([_Handlers(self)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _http_handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self):
        self._server.stop(None).wait()
        self._http.shutdown()
        self._http.server_close()
        self._channel.close()

    def refuse(self, method, refusal):
        """Refuses the next calls that a client's `method` makes, as `refusal` says: {"code", "times", "retry_after_ms",
        "pushback_ms"}, the last two optional. An empty object refuses no call. Other calls, such as a client's request
        for the server's limits, are forwarded and not counted."""
        with self._lock:
            self._refusal, self._left, self._times = refusal, refusal.get("times", 0), []
            self._paths = PATHS.get(method, ())

    def call_times(self):
        """Returns when calls came since `refuse`, in seconds of a monotonic clock."""
        with self._lock:
            return list(self._times)

    def arrived(self, path):
        """Notes a call. Returns the refusal if this call is to be refused, else None."""
        with self._lock:
            if not path.endswith(self._paths):
                return None
            self._times.append(time.monotonic())
            if self._left == 0:
                return None
            self._left -= 1
            return self._refusal

    def forward(self, method, request, timeout, metadata):
        """Makes a call with encoded messages to the server."""
        return self._channel.unary_unary(method)(request, timeout=timeout, metadata=metadata)

    def forward_http(self, command, path, headers, body):
        """Makes a request to the server. Returns status, headers and body of the answer."""
        kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "connection")}
        request = urllib.request.Request(self._target_url + path, body or None, kept, method=command)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, proxy):
        self._proxy = proxy

    def service(self, details):
        def handle(request, context):
            refusal = self._proxy.arrived(details.method)
            if refusal is not None:
                _refuse(context, refusal)
            sent = [one for one in context.invocation_metadata() if not one.key.startswith(("grpc-", "user-agent"))]
            try:
                return self._proxy.forward(details.method, request, context.time_remaining(), sent)
            except grpc.RpcError as error:
                context.set_trailing_metadata([*(error.trailing_metadata() or ())])
                return context.abort(error.code(), error.details())

        return grpc.unary_unary_rpc_method_handler(handle)


def _refuse(context, refusal):
    trailers = []
    if "retry_after_ms" in refusal:
        seconds, milliseconds = divmod(refusal["retry_after_ms"], 1000)
        # gRPC for Go takes the code from the details.
        code = grpc.StatusCode[refusal["code"]].value[0]
        details = wire_details.status(wire_details.retry_info(seconds, milliseconds * 1_000_000), code=code)
        trailers.append((DETAILS_KEY, details))
    if "pushback_ms" in refusal:
        trailers.append((PUSHBACK_KEY, str(refusal["pushback_ms"])))
    context.set_trailing_metadata(trailers)
    context.abort(grpc.StatusCode[refusal["code"]], "refused by the test")


def _http_handler(proxy):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            refusal = proxy.arrived(f"{self.command} {self.path}")
            if refusal is None:
                status, headers, answer = proxy.forward_http(self.command, self.path, self.headers, body)
                sent = {name: headers[name] for name in ("Content-Type", "Retry-After") if name in headers}
            else:
                status = HTTP_STATUS[refusal["code"]]
                answer = b'{"error":{"code":"%s","message":"refused by the test"}}' % refusal["code"].encode()
                sent = {"Content-Type": "application/json"}
                if "retry_after_ms" in refusal:
                    sent["Retry-After"] = str(-(-refusal["retry_after_ms"] // 1000))  # whole seconds, rounded up
            self.send_response(status)
            for name, value in {**sent, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = handle_one  # noqa: N815

        def log_message(self, *_):
            pass

    return Handler
