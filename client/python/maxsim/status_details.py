"""Reads the details of a failed call from its trailing metadata: google.rpc.RetryInfo, BadRequest and ErrorInfo.

Parses these messages by their field numbers, so that the package does not depend on googleapis-common-protos.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

DETAILS_KEY = "grpc-status-details-bin"
PUSHBACK_KEY = "grpc-retry-pushback-ms"
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_DOMAIN = "maxsim"
# The number of digits of the largest 64-bit integer. The numbers in ErrorInfo's metadata are such integers.
_MOST_DIGITS = 20
_MAX_RETRY_S = 365 * 24 * 3600


@dataclasses.dataclass(frozen=True)
class StatusDetails:
    """The details of a failed call.

    `retry_after` is RetryInfo's delay in seconds. `field` is the first field that BadRequest names, and `problem` says
    what is wrong with it. `reason` is ErrorInfo's. `limit` is the largest accepted value, and `limit_key` the key of
    the server's configuration that sets it. `num_deleted` is the number of documents that a failed delete has deleted.
    `pushback_ms` is the text of gRPC's own trailer, which replaces every other delay."""

    retry_after: float | None = None
    field: str | None = None
    pushback_ms: str | None = None
    problem: str | None = None
    reason: str | None = None
    limit: int | None = None
    limit_key: str | None = None
    num_deleted: int | None = None


def read_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> StatusDetails:
    """Returns the details. A malformed detail counts as absent."""
    found = StatusDetails()
    for key, value in metadata or ():
        if key == PUSHBACK_KEY:
            text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
            found = dataclasses.replace(found, pushback_ms=text)
        if key == DETAILS_KEY and isinstance(value, bytes):
            for url, detail in _details(value):
                if url == RETRY_INFO:
                    found = dataclasses.replace(found, retry_after=_retry_delay(detail))
                elif url == BAD_REQUEST:
                    field, problem = _first_violation(detail)
                    found = dataclasses.replace(found, field=field, problem=problem)
                elif url == ERROR_INFO and _text(_last(detail, 2)) == _DOMAIN:
                    known = dict(_entry(entry) for entry in _all(detail, 3))
                    found = dataclasses.replace(
                        found,
                        reason=_text(_last(detail, 1)),
                        limit=_number(known.get("limit", "")),
                        limit_key=known.get("limit_key"),
                        num_deleted=_number(known.get("num_deleted", "")),
                    )
    return found


def _details(status: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields type URL and bytes of each google.protobuf.Any in a google.rpc.Status."""
    for any_message in _all(status, 3):
        url = _last(any_message, 1)
        yield (url.decode("utf-8", "replace") if isinstance(url, bytes) else ""), _bytes(_last(any_message, 2))


def _retry_delay(retry_info: bytes) -> float | None:
    duration = _last(retry_info, 1)
    if not isinstance(duration, bytes):
        return None
    seconds, nanos = _last(duration, 1) or 0, _last(duration, 2) or 0
    if not isinstance(seconds, int) or not isinstance(nanos, int) or seconds > _MAX_RETRY_S or nanos >= 10**9:
        return None  # a negative number is a huge varint
    return seconds + nanos * 1e-9


def _first_violation(bad_request: bytes) -> tuple[str | None, str | None]:
    """Returns field and description of the first violation that names its field."""
    for violation in _all(bad_request, 1):
        name = _text(_last(violation, 1))
        if name is not None:
            return name, _text(_last(violation, 2))
    return None, None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _entry(entry: bytes) -> tuple[str, str]:
    """Returns key and value of an entry of a map."""
    return _text(_last(entry, 1)) or "", _text(_last(entry, 2)) or ""


def _text(value: int | bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _all(message: bytes, number: int) -> list[bytes]:
    return [value for found, value in _fields(message) if found == number and isinstance(value, bytes)]


def _last(message: bytes, number: int) -> int | bytes | None:
    values = [value for found, value in _fields(message) if found == number]
    return values[-1] if values else None


def _fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Returns number and value of each field on the wire, up to the first malformed field."""
    fields: list[tuple[int, int | bytes]] = []
    at = 0
    try:
        while at < len(message):
            tag, at = _varint(message, at)
            kind = tag & 7
            if kind == 0:
                value, at = _varint(message, at)
                fields.append((tag >> 3, value))
                continue
            if kind == 2:
                size, at = _varint(message, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                break
            if at + size > len(message):
                break
            fields.append((tag >> 3, message[at : at + size]))
            at += size
    except IndexError:
        pass
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
