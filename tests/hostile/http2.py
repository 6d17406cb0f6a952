"""Makes HTTP/2 frames, valid and invalid. Nothing checks the order, so a test can send what no client may send.

Supports only what the hostile tests need. There is no padding, no Huffman coding, and no decoding of the server's
header blocks.
"""

import select
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4  # the number of a setting
DEFAULT_WINDOW_BYTES = 65535
FRAME_BYTES = 16384  # the largest payload that every peer takes
CANCEL = struct.pack(">I", 8)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(values=None, ack=False):
    payload = b"".join(struct.pack(">HI", key, value) for key, value in (values or {}).items())
    return frame(SETTINGS, ACK if ack else 0, 0, payload)


def hpack_integer(value, prefix_bits, flags=0):
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([flags | value])
    encoded = bytearray([flags | limit])
    value -= limit
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    encoded.append(value)
    return bytes(encoded)


def hpack_string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return hpack_integer(len(raw), 7) + raw


def hpack_literal(name, value, indexed=False):
    """Encodes a header field as literal text. With `indexed`, the receiver must store the field as entry 62 of its
    table."""
    return (b"\x40" if indexed else b"\x00") + hpack_string(name) + hpack_string(value)


def grpc_header_block(path, extra=(), te="trailers"):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"), ("te", te)]
    fields += [("content-type", "application/grpc"), *extra]
    return b"".join(hpack_literal(name, value) for name, value in fields)


def grpc_prefix(num_bytes):
    """Returns the prefix of a gRPC message: a flag for "not compressed", and the length."""
    return b"\0" + struct.pack(">I", num_bytes)


class Connection:
    """A connection on which the client has sent its preface. With `acknowledge`, it also acknowledges the server's
    SETTINGS."""

    def __init__(self, port, timeout_s=5, acknowledge=True, own_settings=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.acknowledge = acknowledge
        self.closed = None  # why the connection can send no more
        self.ended = set()  # streams that the server has ended
        self._buffer = b""
        self._windows = {0: DEFAULT_WINDOW_BYTES}
        self._initial_window = DEFAULT_WINDOW_BYTES
        self.send(PREFACE + settings(own_settings))

    def send(self, data):
        self.socket.sendall(data)

    def send_headers(self, stream, block, flags=END_HEADERS):
        """Sends a header block in as many frames as it needs."""
        parts = [block[i : i + FRAME_BYTES] for i in range(0, len(block), FRAME_BYTES)] or [b""]
        last = len(parts) - 1
        for i, part in enumerate(parts):
            end = flags & END_HEADERS if i == last else 0
            self.send(frame(HEADERS if i == 0 else CONTINUATION, end | (flags & END_STREAM if i == 0 else 0), stream, part))

    def window(self, stream):
        """Returns the number of bytes of DATA that the server now accepts on the stream."""
        return min(self._windows[0], self._windows.get(stream, self._initial_window))

    def send_data(self, stream, payload, end=False):
        """Sends one DATA frame, which must fit the window."""
        self._windows[0] -= len(payload)
        self._windows[stream] = self._windows.get(stream, self._initial_window) - len(payload)
        self.send(frame(DATA, END_STREAM if end else 0, stream, payload))

    def pump(self, wait_s=0.0):
        """Reads the bytes that have arrived. If there are none, waits for at most `wait_s`. Returns False if the
        server has closed."""
        until = time.monotonic() + wait_s
        while self.closed is None:
            ready, _, _ = select.select([self.socket], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return True
            try:
                received = self.socket.recv(1 << 20)
            except OSError as error:
                self.closed = repr(error)
                return False
            if not received:
                self.closed = self.closed or "end of file"
                return False
            self._buffer += received
            self._take_frames()
            until = 0.0
        return False

    def close(self):
        self.socket.close()

    def _take_frames(self):
        position = 0
        while len(self._buffer) - position >= 9:
            length = int.from_bytes(self._buffer[position : position + 3], "big")
            if len(self._buffer) - position < 9 + length:
                break
            kind, flags = self._buffer[position + 3], self._buffer[position + 4]
            stream = int.from_bytes(self._buffer[position + 5 : position + 9], "big") & 0x7FFFFFFF
            self._take(kind, flags, stream, self._buffer[position + 9 : position + 9 + length])
            position += 9 + length
        self._buffer = self._buffer[position:]

    def _take(self, kind, flags, stream, payload):
        if kind == WINDOW_UPDATE:
            update = int.from_bytes(payload, "big")
            self._windows[stream] = self._windows.get(stream, self._initial_window) + update
        elif kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[i : i + 6])
                if key == INITIAL_WINDOW_SIZE:
                    for other in self._windows:
                        if other != 0:
                            self._windows[other] += value - self._initial_window
                    self._initial_window = value
            if self.acknowledge:
                self.send(settings(ack=True))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.closed = f"GOAWAY {int.from_bytes(payload[4:8], 'big')} {payload[8:60]!r}"
        elif kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM):
            self.ended.add(stream)
