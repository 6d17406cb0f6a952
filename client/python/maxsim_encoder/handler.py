"""One connection: reads requests, answers them, and counts."""

from __future__ import annotations

import io
import json
import re
import socket
import sys
import time
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Dict, Optional, Tuple
from urllib.parse import parse_qsl, urlsplit

from maxsim_encoder import __version__
from maxsim_encoder.connections import Connections
from maxsim_encoder.dialects import DIALECTS, JSON
from maxsim_encoder.errors import RequestError, shown
from maxsim_encoder.wire import HeadError, TimedInput, TimedOutput, client_is_there, read_head

_GET_ROUTES = ("/health", "/info", "/metrics")
# If a request with an error has at most this many unread body bytes, they are read, and the connection stays open.
_MAX_DRAINED_BYTES = 1 << 16
_READ_BYTES = 1 << 16
_WRITE_BYTES = 1 << 16


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive. A body needs a Content-Length."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Connections

    def version_string(self) -> str:
        return f"maxsim-encoder/{__version__}"

    def setup(self) -> None:
        super().setup()
        self._input = TimedInput(self.connection)
        self.rfile = io.BufferedReader(self._input)
        # Sends the head and a small body in one write.
        self.wfile = io.BufferedWriter(TimedOutput(self.connection, self.server.options.idle_timeout_s), _WRITE_BYTES)

    def parse_request(self) -> bool:
        """Marks the connection as busy from the first line on, so that a stopping server still reads the request."""
        self.server.set_busy(self.connection, True)
        self._input.begin_head()
        source = self.rfile
        try:
            # read_head refuses lines that are not headers. Python's own parser ignores such a line, and it may hold the
            # length.
            self.rfile = io.BytesIO(read_head(source))
            return super().parse_request()
        except HeadError as error:
            self.requestline, self.command, self.request_version = "", "", "HTTP/1.1"
            self.send_error(error.status, str(error))
            return False
        finally:
            self.rfile = source

    def handle_expect_100(self) -> bool:
        """Asks for the body immediately, before anything else is written."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def handle_one_request(self) -> None:
        options = self.server.options
        self._input.await_request(options.idle_timeout_s, options.header_timeout_s)
        try:
            super().handle_one_request()
        except (ConnectionError, socket.timeout, ValueError):
            self.close_connection = True  # the peer has gone, or its time is up
        finally:
            self.server.set_busy(self.connection, False)
            self.server.set_working(self.connection, False)
        if self.server.stopping:
            self.close_connection = True

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = do_GET

    def _handle(self) -> None:
        began = time.monotonic()
        self._unread = -1  # bytes of the body that have not been read, -1 if that is unknown
        parts = urlsplit(self.path)
        known = parts.path in DIALECTS or parts.path in _GET_ROUTES
        route = parts.path if known else "other"
        headers: Dict[str, str] = {}
        try:
            status, (content_type, body) = 200, self._answer(parts.path, dict(parse_qsl(parts.query)))
        except RequestError as error:
            status, content_type, body, headers = error.status, JSON, error.body(), error.headers
        except (ConnectionError, socket.timeout):
            raise
        except Exception:  # a bug must not take the connection's answer with it
            traceback.print_exc(file=sys.stderr)
            status, content_type = 500, JSON
            body = RequestError(500, "internal", "an error of the encoder, which its log describes").body()
        # Count before sending the answer, because the caller may read the metrics immediately after it.
        self.server.service.metrics.requests.add((route, str(status)))
        self.server.service.metrics.seconds.observe(time.monotonic() - began, (route,))
        if status == 499:
            self.close_connection = True
            return
        self._send(status, content_type, body, headers)

    def _answer(self, route: str, query: Dict[str, str]) -> Tuple[str, bytes]:
        """Returns content type and body of a successful answer. Raises RequestError."""
        num_bytes = self._body_bytes()
        self._unread = num_bytes
        method = "GET" if route in _GET_ROUTES else "POST"
        if route not in DIALECTS and route not in _GET_ROUTES:
            served = ", ".join([*DIALECTS, *_GET_ROUTES])
            raise RequestError(404, "not_found", f"no route {shown(route)}; there are {served}")
        if self.command != method:
            raise RequestError(
                405, "method_not_allowed", f"{route} takes {method}, not {self.command}", {"Allow": method}
            )
        # An orchestrator's probes have no token.
        if route != "/health" and not self.server.authorized(self.headers.get("Authorization")):
            message = "the header Authorization must hold the token: Bearer TOKEN"
            raise RequestError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        service = self.server.service
        if route == "/metrics":
            return "text/plain; version=0.0.4; charset=utf-8", service.metrics.render().encode()
        if method == "GET":
            info = service.encoder().info  # both /health and /info are 503 while the model loads
            return JSON, json.dumps({"status": "ok"} if route == "/health" else info.as_json()).encode()
        limit = self.server.options.max_body_bytes
        if num_bytes > limit:
            message = f"the body has {num_bytes} bytes, more than the limit {limit}"
            raise RequestError(413, "body_too_large", message)
        service.encoder()
        body = self._read_body(num_bytes)
        self.server.set_working(self.connection, True)
        return service.answer(route, body, query, self._client_is_there)

    def _client_is_there(self) -> bool:
        # A server that is stopping has closed its own reading side, which would look as if the client had closed.
        return self.server.stopping or client_is_there(self.connection)

    def _body_bytes(self) -> int:
        """Returns the body's length. Raises RequestError if the request does not state it."""
        if self.headers.get("Transfer-Encoding") is not None:
            raise RequestError(411, "length_required", "a body needs a Content-Length; Transfer-Encoding is not read")
        lengths = self.headers.get_all("Content-Length", [])
        if not lengths:
            return 0
        if len(set(lengths)) > 1 or not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
            raise RequestError(400, "invalid_length", f"Content-Length must be one number, is {shown(lengths)}")
        return int(lengths[0])

    def _read_body(self, num_bytes: int) -> bytes:
        """Reads the body. Raises RequestError 408 if it takes too long, ConnectionError if the peer closes."""
        self._input.limit(self.server.options.body_timeout_s)
        parts = []
        try:
            while self._unread:
                part = self.rfile.read1(min(self._unread, _READ_BYTES))
                if not part:
                    raise ConnectionError("the body ends early")
                parts.append(part)
                self._unread -= len(part)
        except socket.timeout:
            seconds = self.server.options.body_timeout_s
            message = f"{num_bytes - self._unread} of {num_bytes} bytes of the body came in {seconds:g} s"
            raise RequestError(408, "body_timeout", message) from None
        return b"".join(parts)

    def _send(self, status: int, content_type: str, body: bytes, headers: Dict[str, str]) -> None:
        """Sends an answer in one write. If the request's body was not read, the connection ends after the answer."""
        if 0 < self._unread <= _MAX_DRAINED_BYTES and status not in (408, 413):
            self._read_body(self._unread)
        if self._unread or self.server.stopping:
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Answers bytes that are not HTTP with an error in the usual form, and ends the connection."""
        phrase = message or HTTPStatus(code).phrase
        error = RequestError(code, "invalid_http", phrase)
        self.close_connection = True
        self._unread = 0
        self.server.service.metrics.requests.add(("other", str(code)))
        self.request_version = getattr(self, "request_version", "HTTP/1.1") or "HTTP/1.1"
        if not getattr(self, "command", None):
            self.command = "GET"
        self._send(code, JSON, error.body(), {})

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because requests are counted instead."""
