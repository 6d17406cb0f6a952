"""The bytes of one connection: time limits that hold however slowly they come and go, and heads that have one reading."""

from __future__ import annotations

import io
import re
import socket
import time
from typing import Any, Optional

# A request may have this many bytes before its body, and an answer is written in pieces of _WRITE_BYTES.
MAX_HEAD_BYTES = 1 << 16
_WRITE_BYTES = 1 << 16

# A name without white space before the colon (RFC 9112, 5.1), and a value of visible characters. A line that begins
# with white space continues the one before it in some readers, and a bare carriage return ends one in some.
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class HeadError(Exception):
    """A head that is refused, with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TimedInput(io.RawIOBase):
    """Reads a connection under a deadline for all that is read, not for each read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0
        self._head_s: Optional[float] = None  # set while no byte of the next request has come

    def readable(self) -> bool:
        return True

    def await_request(self, idle_s: float, head_s: float) -> None:
        """Gives the next request `idle_s` to begin, and from then on `head_s` for its head."""
        self._deadline = time.monotonic() + idle_s
        self._head_s = head_s

    def begin_head(self) -> None:
        """The first byte of a request has been read, here or with those of the request before it."""
        if self._head_s is not None:
            self.limit(self._head_s)

    def limit(self, seconds: float) -> None:
        """Gives what is read from now on so many seconds in all."""
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
    """Writes a connection; each write has `seconds` in all, however the peer reads."""

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
    """The lines of a head behind its first, up to and with the empty one. Raises HeadError; ConnectionError where the
    peer goes before."""
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
