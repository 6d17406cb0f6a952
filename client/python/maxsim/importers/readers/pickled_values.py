"""The values that a pickle may hold. For each name that a pickle asks for, a function of this module makes the value
(unpickling.py)."""

from __future__ import annotations

import math
import re
from typing import Callable, Dict, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from maxsim.importers.readers.describing import describe
from maxsim.importers.source import SourceError

_DTYPE = re.compile(r"[<>|=]?[biufUSO][0-9]{0,6}")
# NumPy's own limit.
_MAX_DIMENSIONS = 32
_KEY_TYPES = (str, int, float, bytes, type(None))


class Global(NamedTuple):
    """A name that a pickle asks for. It is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Array:
    """A NumPy array that one opcode creates and a later one fills."""

    value: Optional[np.ndarray] = None


class Object:
    """An object of a class that only holds data. Keeps its fields, and runs no code of the class."""

    def __init__(self) -> None:
        self.fields: Mapping[object, object] = {}


class Dtype:
    """A NumPy dtype. A second opcode sets its byte order."""

    def __init__(self, dtype: "np.dtype[np.generic]") -> None:
        self.dtype = dtype


# Makes a value from the arguments of a call.
Maker = Callable[[Tuple[object, ...]], object]


def _dtype(arguments: Tuple[object, ...]) -> object:
    text = arguments[0] if arguments else None
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise SourceError(f"has an array of type {describe(text, 40)}, which is not read")
    return Dtype(np.dtype(text))


def array_of(raw: object, dtype: object, shape: object, fortran: object) -> np.ndarray:
    """Returns the array of `shape`. Its elements are `raw`: bytes, or a list if they are objects."""
    if not isinstance(dtype, Dtype) or not isinstance(shape, tuple):
        raise SourceError("has an array without type or shape")
    if len(shape) > _MAX_DIMENSIONS or not all(isinstance(size, int) and 0 <= size < 2**63 for size in shape):
        raise SourceError(f"has an array of shape {describe(shape)}")
    count = math.prod(shape)
    order: Literal["C", "F"] = "F" if fortran else "C"
    if dtype.dtype.hasobject:
        if not isinstance(raw, list) or len(raw) != count:
            raise SourceError("has an array of objects whose number is not that of its shape")
        objects = np.empty(count, dtype=object)
        for index, value in enumerate(raw):
            objects[index] = finished(value)
        return np.reshape(objects, shape, order=order)
    if not isinstance(raw, (bytes, bytearray, memoryview)) or len(raw) != count * dtype.dtype.itemsize:
        raise SourceError("has an array whose bytes are not those of its shape")
    return np.reshape(np.frombuffer(raw, dtype=dtype.dtype), shape, order=order)


def _from_buffer(arguments: Tuple[object, ...]) -> object:
    if len(arguments) != 4:
        raise SourceError("has an array that cannot be read")
    raw, dtype, shape, order = arguments
    return array_of(raw, dtype, shape, order == "F")


def _scalar(arguments: Tuple[object, ...]) -> object:
    if len(arguments) != 2:
        raise SourceError("has a number that cannot be read")
    return array_of(arguments[1], arguments[0], (), False).item()


def _encode(arguments: Tuple[object, ...]) -> object:
    """Returns bytes from the text in which protocols 0 to 2 write them."""
    if len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] in ("latin1", "latin-1"):
        return arguments[0].encode("latin-1")
    raise SourceError("has bytes that cannot be read")


def _items(arguments: Tuple[object, ...]) -> Sequence[object]:
    if not arguments:
        return ()
    if len(arguments) != 1 or not isinstance(arguments[0], (list, tuple)):
        raise SourceError("has a container that cannot be read")
    return arguments[0]


def _ordered_dict(arguments: Tuple[object, ...]) -> object:
    made: Dict[object, object] = {}
    for item in _items(arguments):
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            raise SourceError("has a dictionary that cannot be read")
        made[checked_key(item[0])] = item[1]
    return made


def _byte_array(arguments: Tuple[object, ...]) -> object:
    if arguments and isinstance(arguments[0], (bytes, bytearray)):
        return bytes(arguments[0])
    if arguments and isinstance(arguments[0], str) and arguments[1:] == ("latin-1",):
        return arguments[0].encode("latin-1")
    return _encode(arguments) if arguments else b""


def checked_key(value: object) -> object:
    """Returns `value` if it is safe as a key of a dictionary: hashing it neither recurses nor calls a method from the
    pickle. Refuses integers beyond 64 bits, because many of them may have the same hash."""
    value = finished(value)
    if not isinstance(value, _KEY_TYPES):
        raise SourceError(f"has a key of type {type(value).__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise SourceError(f"has a key that is not a 64-bit integer: {describe(value)}")
    return value


def finished(value: object) -> object:
    if isinstance(value, Array):
        if value.value is None:
            raise SourceError("has an array without content")
        return value.value
    return value


MAKERS: Dict[Tuple[str, str], Maker] = {
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _ordered_dict,
}
for _module in ("numpy.core", "numpy._core"):
    MAKERS[_module + ".multiarray", "_reconstruct"] = lambda arguments: Array()
    MAKERS[_module + ".multiarray", "scalar"] = _scalar
    MAKERS[_module + ".numeric", "_frombuffer"] = _from_buffer
for _module in ("builtins", "__builtin__"):
    MAKERS[_module, "set"] = lambda arguments: {checked_key(item) for item in _items(arguments)}
    MAKERS[_module, "frozenset"] = lambda arguments: frozenset(checked_key(item) for item in _items(arguments))
    MAKERS[_module, "bytes"] = MAKERS[_module, "bytearray"] = _byte_array
