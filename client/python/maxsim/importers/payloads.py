"""Converts a source's payload of a document into the JSON object that a collection stores."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from typing import Dict, Mapping

import numpy as np

from maxsim.collection.limits import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH
from maxsim.importers.readers.describing import describe
from maxsim.importers.source import SourceError

# Types that JSON has, so that their values need no conversion.
_PLAIN = frozenset({str, int, bool, type(None)})


def json_payload(payload: Mapping[str, object], where: str) -> Dict[str, object]:
    """Returns `payload` with values that JSON has: NumPy's numbers and arrays become numbers and lists, times become
    ISO 8601, UUIDs and decimals become text. SourceError, which begins with `where`: JSON cannot hold a value, or the
    payload has too many values or levels."""
    if _PLAIN.issuperset(map(type, payload.values())) and all(type(name) is str for name in payload):
        return dict(payload)
    values = _Values()
    return {str(name): values.convert(value, f"{where}, field {describe(name)}", 2) for name, value in payload.items()}


class _Values:
    """Converts the values of one payload. A pickle may share values so often that the converted payload exceeds any
    memory. So each value counts as at least one byte of JSON, and each character of a string as one."""

    def __init__(self) -> None:
        self._bytes_left = MAX_PAYLOAD_BYTES

    def convert(self, value: object, where: str, depth: int) -> object:
        """Returns `value` in a form that JSON has. If it is a list or mapping, `depth` is its level."""
        self._count(len(value) if isinstance(value, str) else 1, where)
        if value is None or isinstance(value, (str, bool, int)):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SourceError(f"{where}: JSON has no {value}")
            return value
        if isinstance(value, (Mapping, list, tuple)):
            if depth > MAX_PAYLOAD_DEPTH:
                raise SourceError(f"{where}: nested deeper than the limit of {MAX_PAYLOAD_DEPTH} levels")
            if isinstance(value, Mapping):
                return {self._name(name, where): self.convert(inner, where, depth + 1) for name, inner in value.items()}
            return [self.convert(inner, where, depth + 1) for inner in value]
        if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind not in "mMV":
            self._count(value.size, where)
            self._bytes_left += value.size  # converting the elements subtracts their sizes again
            return self.convert(value.tolist(), where, depth)
        if isinstance(value, (np.datetime64, np.timedelta64, uuid.UUID, decimal.Decimal)):
            return str(value)
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
            self._count(value.size, where)
            return [str(inner) for inner in value.tolist()]
        raise SourceError(f"{where}: JSON has no {type(value).__name__}")

    def _name(self, name: object, where: str) -> str:
        self._count(len(name) if isinstance(name, str) else 1, where)
        return str(name)

    def _count(self, num_bytes: int, where: str) -> None:
        self._bytes_left -= num_bytes
        if self._bytes_left < 0:
            raise SourceError(
                f"{where}: the payload has more than {MAX_PAYLOAD_BYTES} bytes as JSON, which is the limit"
            )
