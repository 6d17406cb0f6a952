"""Payloads: JSON objects that are stored with documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from .errors import CollectionError, quote
from .limits import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH

# The largest size of an integer in a payload. JSON readers may hold it in a double, whose range ends at 2^1024.
_MAX_INTEGER_BITS = 1023

# This encoder is kept, because json.dumps would make a new one for each call. It need not check for cycles: it encodes
# a copy, which cannot contain itself.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def encode_payload(payload: Optional[Mapping[str, Any]]) -> bytes:
    """Returns the JSON text of a payload, in UTF-8 without white space. None and an empty payload give b"".

    Values may be None, booleans, numbers, strings, lists, mappings whose keys are strings, and NumPy's scalars and
    arrays. CollectionError names the field that has any other value.
    """
    if payload is None:
        return b""
    if not isinstance(payload, Mapping):
        raise CollectionError(f"must be a mapping, is {type(payload).__name__}", field="payload")
    if not payload:
        return b""
    try:
        plain = {key: _plain(value, key, 2) if type(value) not in _SCALARS else value for key, value in payload.items()}
        for key, value in plain.items():
            if not isinstance(key, str):
                raise CollectionError(f"key {key!r:.200} is not a string", field="payload")
            if type(value) is int and value.bit_length() > _MAX_INTEGER_BITS:
                _plain(value, key, 2)
        text = _ENCODER.encode(plain).encode()
    except UnicodeEncodeError:
        raise CollectionError("a string is not UTF-8: it holds half a surrogate pair", field="payload") from None
    except CollectionError:
        raise
    except ValueError as error:
        raise CollectionError(
            f"a number that is not finite, which JSON does not have ({error})", field="payload"
        ) from None
    if len(text) > MAX_PAYLOAD_BYTES:
        raise CollectionError(f"{len(text)} bytes as JSON, the limit is {MAX_PAYLOAD_BYTES}", field="payload")
    return text


_SCALARS = (str, int, float, bool, type(None))


def _plain(value: Any, field: Any, depth: int) -> Any:
    """Returns a copy of a value that json.dumps accepts. If the value is a list or mapping, `depth` is its level."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise CollectionError(
                f"payload: field {quote(str(field))}: an integer of {value.bit_length()} bits, the limit is "
                f"{_MAX_INTEGER_BITS}"
            )
        return value
    if isinstance(value, Mapping):
        _check_depth(field, depth)
        for key in value:
            if not isinstance(key, str):
                raise CollectionError(f"field {quote(str(field))}: key {key!r:.200} is not a string", field="payload")
        return {key: _plain(item, field, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        _check_depth(field, depth)
        return [_plain(item, field, depth + 1) for item in value]
    raise CollectionError(
        f"payload: field {quote(str(field))}: a {type(value).__name__} is not a value of JSON; give it as a string or "
        "a number"
    )


def _check_depth(field: Any, depth: int) -> None:
    if depth > MAX_PAYLOAD_DEPTH:
        raise CollectionError(
            f"payload: field {quote(str(field))}: nested deeper than the limit of {MAX_PAYLOAD_DEPTH} levels"
        )
