"""Fields: values of payloads that requests can filter by (docs/reference/formats.md)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Optional, Union

import numpy as np

from .errors import CollectionError, quote
from .ids import MAX_INT64, MIN_INT64

MAX_FIELDS = 64
MAX_PATH_BYTES = 256
MAX_KEYWORD_BYTES = 512
MAX_KEYWORDS_PER_DOCUMENT = 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_FILTER_WORDS = ("and", "or", "not", "in", "exists", "true", "false")
_EXPECTED = {
    "keyword": "a string",
    "keywords": "a list of strings",
    "integer": "an integer of 64 bits",
    "number": "a number",
    "boolean": "true or false",
    "time": 'a time of RFC 3339 in years 0000 to 9999, such as "2026-01-02T03:04:05Z"',
}
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", flags=re.ASCII
)
_MIN_TIME = -62_167_219_200_000_000  # the year 0000, in microseconds since 1970
_MAX_TIME = 253_402_300_799_999_999

# A document's value of a field. Keywords are in ascending order without repeats; times are microseconds since 1970.
# None: no value.
Value = Union[None, str, "list[str]", int, float, bool]


@dataclass(frozen=True)
class Field:
    """One field: its name, its kind, and its path. The path has the keys that lead to its value, joined by dots."""

    name: str
    kind: str
    path: str

    def __str__(self) -> str:
        return f"{self.name}:{self.kind}" + ("" if self.path == self.name else f"={self.path}")


def parse_fields(text: str) -> tuple[Field, ...]:
    """Parses "NAME:KIND=PATH,NAME:KIND,...". Without "=PATH", the path is the name. "" has no fields."""
    if not isinstance(text, str):
        raise CollectionError(
            f"a {type(text).__name__}; must be a string such as lang:keyword=meta.lang", field="fields"
        )
    fields = []
    for part in text.split(",") if text else []:
        name, colon, rest = part.partition(":")
        if not colon:
            raise CollectionError(f"{quote(part)}: must be NAME:KIND or NAME:KIND=PATH", field="fields")
        kind, equals, path = rest.partition("=")
        if kind not in _EXPECTED:
            raise CollectionError(
                f"{quote(part)}: kind: {quote(kind)}, expected one of {', '.join(_EXPECTED)}", field="fields"
            )
        fields.append(Field(name, kind, path if equals else name))
    check_fields(fields)
    return tuple(fields)


def format_fields(fields: tuple[Field, ...]) -> str:
    return ",".join(map(str, fields))


def check_fields(fields: list[Field]) -> None:
    """Raises CollectionError unless a collection can have all these fields."""
    if len(fields) > MAX_FIELDS:
        raise CollectionError(f"{len(fields)} fields, the limit is {MAX_FIELDS}", field="fields")
    for index, field in enumerate(fields):
        if not _NAME.fullmatch(field.name):
            raise CollectionError(
                f"fields: name: {quote(field.name)} must be 1 to 64 characters of A-Z a-z 0-9 _, the first not a digit"
            )
        if field.name.lower() in _FILTER_WORDS:
            raise CollectionError(f"name: {quote(field.name)} is a word of the filter grammar", field="fields")
        where = f"fields: field {quote(field.name)}"
        try:
            size = len(field.path.encode())
        except UnicodeEncodeError:
            size = -1
        if size == 0 or size > MAX_PATH_BYTES:
            raise CollectionError(f"{where}: path: {size} bytes; must be 1 to {MAX_PATH_BYTES}")
        if size < 0 or "," in field.path or any(unicodedata.category(char) == "Cc" for char in field.path):
            raise CollectionError(
                f"{where}: path: {quote(field.path)} holds a comma or a control character, or is not UTF-8"
            )
        if "" in field.path.split("."):
            raise CollectionError(f"{where}: path: {quote(field.path)} has an empty key: dots separate keys")
        if any(field.name == other.name for other in fields[:index]):
            raise CollectionError(f"{where} appears twice")
        for other in fields:
            if field.path.startswith(other.path + "."):
                raise CollectionError(
                    f"{where}: path: {quote(field.path)} leads into the value of field {quote(other.name)}, whose path "
                    f"is {quote(other.path)}"
                )


def parse_time(text: str) -> Optional[int]:
    """Returns a time of RFC 3339 as microseconds since 1970, or None for other text."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    offset = 0
    if sign is not None:
        if int(offset_hours) > 23 or int(offset_minutes) > 59:
            return None
        offset = (3600 * int(offset_hours) + 60 * int(offset_minutes)) * (-1 if sign == "-" else 1)
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        # Python's dates have no year 0. That year is a leap year like the year 400, which is 146,097 days later.
        days = date(year or 400, month, day).toordinal() - date(1970, 1, 1).toordinal() - (0 if year else 146_097)
    except ValueError:
        return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    time = (days * 86_400 + hour * 3600 + minute * 60 + second - offset) * 1_000_000 + micros
    return time if _MIN_TIME <= time <= _MAX_TIME else None


class FieldReader:
    """Reads the values of fields from payloads."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self._paths = [field.path.split(".") for field in fields]

    def read(self, payload: Optional[Mapping[str, Any]]) -> list[Value]:
        """Returns the values of all fields of a payload. CollectionError names the field and the value that does not
        fit its kind."""
        if not payload:
            return [None] * len(self.fields)
        return [_convert(field, _find(field, path, payload)) for field, path in zip(self.fields, self._paths)]


def _find(field: Field, path: list[str], payload: Mapping[str, Any]) -> Any:
    value: Any = payload
    for index, key in enumerate(path):
        if not isinstance(value, Mapping):
            raise CollectionError(
                f"field {quote(field.name)}: the member {quote(path[index - 1])} of the path {quote(field.path)} is "
                f"{_describe(value)}; must be an object"
            )
        value = value.get(key)
        if isinstance(value, (np.generic, np.ndarray)):
            value = value.tolist()
        if value is None:
            return None
    return value


def _convert(field: Field, value: Any) -> Value:
    if value is None:
        return None
    kind = field.kind
    if kind == "keywords" and isinstance(value, (list, tuple)):
        return _keywords(field, value)
    if kind == "keyword" and isinstance(value, str):
        return _keyword(field, value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
        if MIN_INT64 <= value <= MAX_INT64:
            return int(value)
    if kind == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) + 0.0  # turns -0 into 0
    if kind == "time" and isinstance(value, str):
        time = parse_time(value)
        if time is not None:
            return time
    raise CollectionError(f"field {quote(field.name)}: the value is {_describe(value)}; must be {_EXPECTED[kind]}")


def _keyword(field: Field, value: str) -> str:
    size = len(value.encode())
    if size > MAX_KEYWORD_BYTES:
        raise CollectionError(
            f"field {quote(field.name)}: {quote(value)} has {size} bytes, the limit is {MAX_KEYWORD_BYTES}"
        )
    return value


def _keywords(field: Field, values: Any) -> Optional[list[str]]:
    if len(values) > MAX_KEYWORDS_PER_DOCUMENT:
        raise CollectionError(
            f"field {quote(field.name)}: the list has more than {MAX_KEYWORDS_PER_DOCUMENT} elements, the limit"
        )
    for value in values:
        if not isinstance(value, str):
            raise CollectionError(
                f"field {quote(field.name)}: an element of the list is {_describe(value)}; must be a string"
            )
        _keyword(field, value)
    # Sorting by code points is the same as sorting by the bytes of UTF-8.
    return sorted({str(value) for value in values}) or None


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return f"{value!r:.100}"
    if isinstance(value, float):
        return f"the number {value:g}"
    return "an object" if isinstance(value, Mapping) else "a list"
