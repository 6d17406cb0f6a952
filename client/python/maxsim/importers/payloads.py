"""Turns what a source holds for a document's payload into a JSON object, which is what a collection stores."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from typing import Dict, Mapping

import numpy as np

from maxsim.importers.source import SourceError

# JSON has these as they are.
_PLAIN = frozenset({str, int, bool, type(None)})


def json_payload(payload: Mapping[str, object], where: str) -> Dict[str, object]:
    """`payload` with values that JSON has: numbers and arrays of NumPy as numbers and lists, times as ISO 8601, UUIDs
    and decimals as text. SourceError, which begins with `where`, for a value that JSON cannot hold."""
    if _PLAIN.issuperset(map(type, payload.values())) and all(type(name) is str for name in payload):
        return dict(payload)
    return {str(name): _json_value(value, f"{where}, field {name!r}") for name, value in payload.items()}


def _json_value(value: object, where: str) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SourceError(f"{where}: JSON has no {value}")
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(inner, where) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(inner, where) for inner in value]
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind not in "mMV":
        return _json_value(value.tolist(), where)
    if isinstance(value, (np.datetime64, np.timedelta64, uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return [str(inner) for inner in value.tolist()]
    raise SourceError(f"{where}: JSON has no {type(value).__name__}")
