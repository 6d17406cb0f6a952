"""Checks the arguments that users pass. A wrong argument raises a ValueError with its name, its value and the
accepted values."""

from __future__ import annotations

import math
import operator
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

MAX_TOP_K = 2**32 - 1  # uint32 on the wire
MAX_DIM = 2**32 - 1
MAX_SEQUENCE = 2**64 - 1  # uint64 on the wire, like the versions of documents
MAX_REQUEST_ID_BYTES = 256
_MAX_SECONDS = 1e9  # gRPC counts nanoseconds since 1970 in 64 bits, which end in 2262

ItemT = TypeVar("ItemT")


def shown(value: object) -> str:
    """Returns a value in a short form for an error message. For an array, this is its shape."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"an array [{', '.join(map(str, shape))}]"
    return reprlib.repr(value)


def text(value: object, name: str, accepted: str = "a string") -> str:
    """Returns the value if it is a string that can be sent."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}; must be {accepted}")
    if not is_unicode(value):
        raise ValueError(f"{name} is {shown(value)}, which holds half of a surrogate pair; must be Unicode text")
    return value


def is_unicode(value: str) -> bool:
    """Says whether a string can be encoded in UTF-8. A string with half of a surrogate pair cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def flag(value: object, name: str) -> bool:
    """Returns the value if it is a bool of Python or of NumPy."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name} is {shown(value)}; must be True or False")


def integer(value: Any) -> int | None:
    """Returns an integer of any type as an int. Returns None for a bool, a float and everything else."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole_number(value: object, name: str, least: int, most: int | None = None) -> int:
    """Returns an integer in `least` .. `most`. If `most` is None, there is no upper limit."""
    number = integer(value)
    if number is None or number < least or (most is not None and number > most):
        bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {shown(value)}; must be an integer {bounds}")
    return number


def sequence(value: object, name: str) -> int:
    """Checks the sequence number of a write and returns it. For None returns 0, which means that no write is asked
    for."""
    return 0 if value is None else whole_number(value, name, 0, MAX_SEQUENCE)


def named(value: object, name: str, values: Mapping[str, Any]) -> Any:
    """Returns the value that belongs to a name in `values`."""
    if not isinstance(value, str) or value not in values:
        raise ValueError(f"{name} is {shown(value)}; must be one of {', '.join(values)}")
    return values[value]


def real_number(value: Any, name: str, accepted: str) -> float:
    """Returns a finite number. Strings and bools are refused."""
    if not isinstance(value, (bool, np.bool_, str, bytes, bytearray)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError(f"{name} is {shown(value)}; must be {accepted}")


def seconds(value: object, name: str) -> float:
    """Returns a time of more than 0 seconds that gRPC can still count."""
    accepted = "a finite number of seconds above 0"
    number = real_number(value, name, accepted)
    if number <= 0:
        raise ValueError(f"{name} is {shown(value)}; must be {accepted}")
    return min(number, _MAX_SECONDS)


def timeout(value: object, name: str = "timeout") -> float | None:
    """Returns the seconds that a call may take, or None if the client's default applies."""
    if value is None:
        return None
    try:
        return seconds(value, name)
    except ValueError as error:
        raise ValueError(f"{error}, or None for the default") from None


def path(value: object, name: str) -> str | os.PathLike[str] | None:
    """Returns the path of a file, or None if `value` is None."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return value
    raise ValueError(f"{name} is {shown(value)}; must be the path of a file")


def items(values: Iterable[ItemT], name: str, accepted: str) -> Iterator[ItemT]:
    """Returns an iterator over an iterable that is neither a string nor a mapping."""
    if isinstance(values, (str, bytes)):
        raise ValueError(f"{name} is one string; must be {accepted}")
    if not isinstance(values, Mapping):
        try:
            return iter(values)
        except TypeError:
            pass
    raise ValueError(f"{name} is {shown(values)}; must be {accepted}")
