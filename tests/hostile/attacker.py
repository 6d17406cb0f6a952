"""The common parts of attacks: their duration, connections, and methods to call."""

import select
import sys
import time

import http2
from http2 import DATA, frame

RERANK = "/maxsim.v1.Reranker/Rerank"
RERANK_STREAM = "/maxsim.v1.Reranker/RerankStream"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
MIB = 1 << 20


class Attacker:
    def __init__(self, options):
        self.grpc_port = options["grpc_port"]
        self.http_port = options["http_port"]
        self.token = options.get("token", "")
        self.seconds = options["seconds"]
        self.options = options
        self.end = time.monotonic() + self.seconds

    def running(self):
        return time.monotonic() < self.end or not select.select([sys.stdin], [], [], 0)[0]

    def authorization(self):
        return [("authorization", f"Bearer {self.token}")]

    def connect(self, **arguments):
        """Returns a connection to the gRPC port, or None if the server refuses it."""
        try:
            return http2.Connection(self.grpc_port, **arguments)
        except OSError:
            time.sleep(0.05)
            return None


def flood(attacker, begin, more):
    """Calls begin(connection), then more(connection) again and again until the server closes the connection. Repeats
    this with new connections."""
    sent, connections, why = 0, 0, None
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        connections += 1
        try:
            begin(connection)
            while attacker.running() and connection.pump():
                sent += more(connection)
        except OSError as error:
            why = repr(error)
        why = connection.closed or why
        connection.close()
        time.sleep(0.01)
    return {"sent_bytes": sent, "connections": connections, "closed": why}


def nothing(_connection):
    """Does nothing. For attacks on connections that have made no successful call before."""


def healthy_call(connection):
    """Calls the health service, which needs no token, and waits for its answer."""
    connection.send_headers(1, http2.grpc_header_block(HEALTH_CHECK))
    connection.send(frame(DATA, http2.END_STREAM, 1, http2.grpc_prefix(0)))
    until = time.monotonic() + 1
    while 1 not in connection.ended and time.monotonic() < until and connection.pump(0.05):
        pass
