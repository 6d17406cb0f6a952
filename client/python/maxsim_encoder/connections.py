"""The connections of the HTTP server, and their limits. Each connection has a thread."""

from __future__ import annotations

import collections
import dataclasses
import hmac
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Optional, Type

from maxsim_encoder.service import Service


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Where to listen, and the limits of connections and bodies."""

    host: str = "127.0.0.1"
    port: int = 8090  # 0 takes a free one
    max_body_bytes: int = 16 << 20
    max_connections: int = 256
    idle_timeout_s: float = 60.0  # for a connection without a request, and for a client to read an answer
    header_timeout_s: float = 10.0  # from a request's first byte to the end of its head; also for a TLS handshake
    body_timeout_s: float = 30.0  # from a request's head to the end of its body
    token: Optional[bytes] = None  # what "Authorization: Bearer" must hold
    tls: Optional[ssl.SSLContext] = None


@dataclasses.dataclass
class _Connection:
    """The server's data about a connection."""

    peer: str  # its address
    busy: bool = False  # a request is in progress
    working: bool = False  # that request has arrived completely, and may be answered


class Connections(ThreadingHTTPServer):
    """Listens as soon as it is constructed. `run` answers requests until `stop` is called."""

    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(
        self, options: ServerOptions, service: Service, handler: Type[BaseHTTPRequestHandler]
    ) -> None:
        if ":" in options.host:
            self.address_family = socket.AF_INET6
        self.options = options
        self.service = service
        self.stopping = False
        self._lock = threading.Lock()
        self._connections: Dict[socket.socket, _Connection] = {}  # in order of last activity, oldest first
        self._none_left = threading.Condition(self._lock)
        super().__init__((options.host, options.port), handler)

    def server_bind(self) -> None:
        """Binds without the look-up of the machine's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"{'https' if self.options.tls else 'http'}://{host}:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for the connection. At the limit of connections, first closes one that is not being answered,
        so that connections that send nothing, or send slowly, cannot keep others out."""
        evicted = None
        with self._lock:
            full = len(self._connections) >= self.options.max_connections
            if full:
                evicted = self._take_slowest()
            if not full or evicted is not None:
                self._connections[request] = _Connection(str(client_address[0]))
        if full and evicted is None:
            self.shutdown_request(request)
            return
        if evicted is not None:
            _end(evicted)
        super().process_request(request, client_address)

    def _take_slowest(self) -> Optional[socket.socket]:
        """Removes and returns a connection that is not being answered, or returns None if all are. Picks from the peer
        with the most such connections the one that has waited longest. So a peer with many connections loses its own
        first."""
        waiting = [(key, known) for key, known in self._connections.items() if not known.working]
        if not waiting:
            return None
        counts = collections.Counter(known.peer for _, known in waiting)
        most = max(counts.values())
        slowest = next(key for key, known in waiting if counts[known.peer] == most)
        del self._connections[slowest]
        return slowest

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Runs in the connection's thread. The TLS handshake is done here so that a slow one does not delay others."""
        connection = request
        try:
            if self.options.tls is not None:
                request.settimeout(self.options.header_timeout_s)  # in Python this limits the whole handshake
                connection = self.options.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
                self._replace(request, connection)
                connection.do_handshake()
            self.finish_request(connection, client_address)
        except (OSError, ssl.SSLError):
            pass  # the peer has gone, or speaks no TLS
        finally:
            with self._none_left:
                self._connections.pop(request, None)
                self._connections.pop(connection, None)
                self._none_left.notify_all()
            self.shutdown_request(connection)

    def _replace(self, request: socket.socket, connection: socket.socket) -> None:
        """Registers the TLS connection in place of its socket. Raises ConnectionError if the socket was
        evicted in the meantime."""
        with self._lock:
            known = self._connections.pop(request, None)
            if known is None:
                raise ConnectionError("evicted")
            self._connections[connection] = known

    def set_busy(self, connection: socket.socket, busy: bool) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections[connection].busy = busy

    def set_working(self, connection: socket.socket, working: bool) -> None:
        with self._lock:
            known = self._connections.pop(connection, None)
            if known is None:  # evicted meanwhile
                return
            known.working = working
            self._connections[connection] = known  # goes to the end of the dictionary, as the most recently active

    def authorized(self, header: Optional[str]) -> bool:
        """Returns whether an Authorization header holds the token. Compares in constant time."""
        if self.options.token is None:
            return True
        scheme, _, token = (header or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.options.token)

    def run(self) -> None:
        self.serve_forever(poll_interval=0.05)

    def stop(self, timeout_s: float) -> bool:
        """Answers accepted requests and refuses new ones. Returns False if that took longer than `timeout_s`."""
        self.stopping = True
        self.shutdown()
        # Clients whose connections are still in the listener's backlog believe that they are accepted, so answer them.
        self.socket.setblocking(False)
        while True:
            try:
                request, address = self.get_request()
            except OSError:
                break
            request.setblocking(True)
            self.process_request(request, address)
        self.socket.close()
        limit = time.monotonic() + timeout_s
        with self._none_left:
            while self._connections and time.monotonic() < limit:
                for connection, known in self._connections.items():
                    if not known.busy:
                        _end_input(connection)
                self._none_left.wait(0.05)
            return not self._connections


def _end(connection: socket.socket) -> None:
    """Ends pending reads and writes of the connection. Its thread then closes it."""
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass


def _end_input(connection: socket.socket) -> None:
    """Ends the next read of an idle connection. Bytes that have already arrived are still read."""
    try:
        socket.socket.shutdown(connection, socket.SHUT_RD)
    except OSError:
        pass
