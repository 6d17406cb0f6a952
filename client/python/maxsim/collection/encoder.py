"""The identity of the encoder that made token vectors: the block "encoder" of a manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

from maxsim.unique_json import parse_json

from .errors import CollectionError, quote
from .limits import MAX_DIM, MAX_ENCODER_LENGTH, MAX_ENCODER_TEXT_BYTES

_MAX_FILE_BYTES = 64 << 10

# The keys in the order of a manifest, each with the value that stands for "unknown".
_DEFAULTS: dict[str, Union[str, int, bool]] = {
    "model": "",
    "fingerprint": "",
    "dim": 0,
    "query_prefix": "",
    "document_prefix": "",
    "query_length": 0,
    "document_length": 0,
    "query_expansion": False,
}


def encoder_identity(encoder: Union[Mapping[str, Any], str, os.PathLike[str]], dim: int) -> dict[str, Any]:
    """Returns the whole block. `encoder` is a mapping, or the path of a JSON file that holds one.

    `model` and `dim` are required, and `dim` must be the dimension of the token vectors. Other keys may be left out.
    A length is at least 1. CollectionError names the key, its value and the limit.
    """
    if not isinstance(encoder, Mapping):
        encoder = _read(encoder)
    for key in encoder:
        if key not in _DEFAULTS:
            raise CollectionError(f"unknown key {quote(str(key))}; there are {', '.join(_DEFAULTS)}", field="encoder")
    for key in ("model", "dim"):
        if key not in encoder:
            raise CollectionError(f'key "{key}" is missing', field="encoder")
    identity = {key: _checked(key, encoder.get(key, default), default) for key, default in _DEFAULTS.items()}
    if identity["dim"] == 0:
        raise CollectionError(f"dim: 0 is not in 1 .. {MAX_DIM}", field="encoder")
    if identity["dim"] != dim:
        raise CollectionError(f"dim: {identity['dim']}, but the token vectors' dim is {dim}", field="encoder")
    return identity


def _read(path: Union[str, os.PathLike[str]]) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        text = file.read(_MAX_FILE_BYTES + 1)
    if len(text) > _MAX_FILE_BYTES:
        raise CollectionError(f"{path}: longer than the limit of {_MAX_FILE_BYTES} bytes", field="encoder")
    try:
        parsed = parse_json(text)
    except ValueError as error:
        raise CollectionError(f"{path}: is not JSON: {error}", field="encoder") from None
    if not isinstance(parsed, dict):
        raise CollectionError(f"{path}: must be a JSON object", field="encoder")
    return parsed


def _checked(key: str, value: Any, default: Union[str, int, bool]) -> Any:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise CollectionError(f"{key}: {value!r:.100}; must be true or false", field="encoder")
        return value
    if isinstance(default, str):
        if not isinstance(value, str):
            raise CollectionError(f"{key}: {value!r:.100}; must be a string", field="encoder")
        try:
            num_bytes = len(value.encode())
        except UnicodeEncodeError:
            raise CollectionError(f"{key}: is not UTF-8", field="encoder") from None
        if num_bytes > MAX_ENCODER_TEXT_BYTES:
            raise CollectionError(f"{key}: {num_bytes} bytes, the limit is {MAX_ENCODER_TEXT_BYTES}", field="encoder")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise CollectionError(f"{key}: {value!r:.100}; must be an integer", field="encoder")
    limit = MAX_DIM if key == "dim" else MAX_ENCODER_LENGTH
    if not 0 <= value <= limit:
        raise CollectionError(f"{key}: {value} is not in 1 .. {limit}", field="encoder")
    return value
