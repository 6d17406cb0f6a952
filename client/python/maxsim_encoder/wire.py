"""Reads and writes one connection: with time limits that slow peers cannot extend, and only request heads that every
reader parses alike."""

from __future__ import annotations

import io
import re
import select
import socket
import time
from typing import Any, Optional

# Limit of a request's bytes before its body. An answer is written in pieces of _WRITE_BYTES.
MAX_HEAD_BYTES = 1 << 16
_WRITE_BYTES = 1 << 16

# A name without white space before the colon (RFC 9112, 5.1), and a value of visible characters. Other heads are
# ambiguous: some readers take a line that begins with white space as a continuation, and a bare carriage return as a
# line end.
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class HeadError(Exception):
    """A request head that is refused with `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TimedInput(io.RawIOBase):
    """Reads a connection with one deadline for all bytes together, not one per read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0
        self._head_s: Optional[float] = None  # None once a byte of the next request has arrived

    def readable(self) -> bool:
        return True

    def await_request(self, idle_s: float, head_s: float) -> None:
        """Sets the time limits of the next request: `idle_s` until its first byte, then `head_s` for its head."""
        self._deadline = time.monotonic() + idle_s
        self._head_s = head_s

    def begin_head(self) -> None:
        """Call this when the first byte of a request has been read, possibly together with the previous request."""
        if self._head_s is not None:
            self.limit(self._head_s)

    def limit(self, seconds: float) -> None:
        """Limits the total time of all reads from now on."""
        self._deadline = time.monotonic() + seconds
        self._head_s = None

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("too slow")
        self._connection.settimeout(left)
        num_bytes = self._connection.recv_into(buffer)
        if num_bytes > 0:
            self.begin_head()
        return num_bytes


class TimedOutput(io.RawIOBase):
    """Writes to a connection. Each write may take `seconds` in total, however slowly the peer reads."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        deadline = time.monotonic() + self._seconds
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("too slow")
            self._connection.settimeout(left)
            rest = rest[self._connection.send(rest[:_WRITE_BYTES]) :]
        return size


def read_head(source: io.BufferedIOBase) -> bytes:
    """Returns the header lines after the first line of a head, including the final empty line. Raises HeadError, or
    ConnectionError if the peer closes before that."""
    lines = []
    num_bytes = 0
    while True:
        line = source.readline(MAX_HEAD_BYTES + 1)
        num_bytes += len(line)
        if num_bytes > MAX_HEAD_BYTES:
            raise HeadError(431, f"the head has more than {MAX_HEAD_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise ConnectionError("the head ends early")
        lines.append(line)
        text = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        if not text:
            return b"".join(lines)
        if not _HEADER.fullmatch(text):
            shown = text[:80].decode("latin-1").encode("unicode_escape").decode()
            raise HeadError(400, f"a header must be a name, a colon and a value, is {shown}")


def client_is_there(connection: socket.socket) -> bool:
    """Returns False if the peer has closed its side. Looks at the bytes below TLS without consuming them."""
    try:
        if not select.select([connection], [], [], 0)[0]:
            return True
        return bool(socket.socket.recv(connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except (BlockingIOError, InterruptedError):
        return True
    except (OSError, ValueError):
        return False
