"""XXH3 of 128 bits, the checksum of shard files."""

from __future__ import annotations

from typing import Any

try:
    import xxhash
except ImportError as error:  # pragma: no cover
    raise ImportError("writing a collection needs the package xxhash: pip install xxhash") from error

PREFIX = "xxh3-128:"


def xxh3_128_digest(data: bytes) -> bytes:
    """Returns the hash of an id, in 16 bytes."""
    digest: bytes = xxhash.xxh3_128_digest(data)
    return digest


class Checksum:
    """Computes the checksum of bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._state: Any = xxhash.xxh3_128()

    def update(self, data: Any) -> None:
        self._state.update(data)

    def format(self) -> str:
        """Returns the checksum as manifests write it: "xxh3-128:" and 32 hexadecimal digits."""
        return PREFIX + str(self._state.hexdigest())
