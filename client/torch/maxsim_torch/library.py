"""libmaxsim.so through ctypes: its structures (kernels/library/include/maxsim/maxsim.h) and its functions."""

import ctypes
import os
import pathlib
import typing
from typing import Any

# The numbers of maxsim.h.
CPU, CUDA = 0, 1
F32, F16, BF16, I8 = 1, 2, 3, 4
PADDED, PACKED, SCATTERED = 0, 1, 2
INT64, INT32 = 0, 1
SCALE_A_SEQUENCE, SCALE_A_TOKEN = 0, 1
ALL, PAIRS, LISTS = 0, 1, 2
FORWARD, BACKWARD = 0, 1

_INVALID_ARGUMENT, _OUT_OF_MEMORY, _UNSUPPORTED = 1, 2, 3


class LibraryError(RuntimeError):
    """The library failed for a reason that is not in the arguments, such as an error of CUDA."""


class Tokens(ctypes.Structure):
    """The structure maxsim_tokens: queries or documents."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("layout", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("index_type", ctypes.c_int32),
        ("num_sequences", ctypes.c_int64),
        ("max_tokens", ctypes.c_int64),
        ("num_rows", ctypes.c_int64),
        ("rows", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("scale_of", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class Call(ctypes.Structure):
    """The structure maxsim_call: what is scored, and where."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("pairing", ctypes.c_int32),
        ("queries", ctypes.c_void_p),  # the address of Tokens
        ("documents", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("candidates", ctypes.c_void_p),
        ("list_length", ctypes.c_int64),
        ("empty_score", ctypes.c_float),
        ("num_threads", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    ]


class Gradients(ctypes.Structure):
    """The structure maxsim_gradients: what maxsim_backward takes and writes."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("argmax", ctypes.c_void_p),
        ("score_gradients", ctypes.c_void_p),
        ("query_gradients", ctypes.c_void_p),
        ("document_gradients", ctypes.c_void_p),
        ("weight_gradients", ctypes.c_void_p),
    ]


def _find() -> str:
    """The library that MAXSIM_LIBRARY names, the package's own, or one that the system's loader knows."""
    given = os.environ.get("MAXSIM_LIBRARY")
    if given:
        return given
    own = pathlib.Path(__file__).parent / "lib" / "libmaxsim.so.0"
    return str(own) if own.exists() else "libmaxsim.so.0"


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise ImportError(f"maxsim_torch cannot load {path}: {problem}; MAXSIM_LIBRARY names another file") from problem
    library.maxsim_version.restype = ctypes.c_char_p
    library.maxsim_last_error.restype = ctypes.c_char_p
    library.maxsim_device_available.argtypes = [ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)]
    library.maxsim_workspace_bytes.argtypes = [
        ctypes.POINTER(Call),
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_size_t),
    ]
    library.maxsim_forward.argtypes = [ctypes.POINTER(Call), ctypes.c_void_p, ctypes.c_void_p]
    library.maxsim_backward.argtypes = [ctypes.POINTER(Call), ctypes.POINTER(Gradients)]
    return library


_library = _load()


def loaded(name: str, arguments: "list[Any]") -> Any:
    """The function of the library, with the types of its arguments; it returns a status, which `check` takes."""
    function = getattr(_library, name)
    function.argtypes = arguments
    return function


def check(status: int) -> None:
    """Raises what a status stands for: ValueError, MemoryError, NotImplementedError or LibraryError."""
    if status == 0:
        return
    text = _library.maxsim_last_error().decode()
    if status == _INVALID_ARGUMENT:
        raise ValueError(text)
    if status == _OUT_OF_MEMORY:
        raise MemoryError(text)
    if status == _UNSUPPORTED:
        raise NotImplementedError(text)
    raise LibraryError(text)


def loaded_passes(
    name: str, call: "type[ctypes.Structure]", gradients: "type[ctypes.Structure]"
) -> "tuple[Any, Any, Any]":
    """The functions of a family of operators: for the workspace, the forward pass and the backward pass."""
    size = ctypes.POINTER(ctypes.c_size_t)
    return (
        loaded(f"{name}_workspace_bytes", [ctypes.POINTER(call), ctypes.c_int32, size]),
        loaded(name, [ctypes.POINTER(call), ctypes.c_void_p, ctypes.c_void_p]),
        loaded(f"{name}_backward", [ctypes.POINTER(call), ctypes.POINTER(gradients)]),
    )


def size_from(function: Any, *arguments: Any) -> int:
    """What a function writes to its last argument, a size."""
    size = ctypes.c_size_t()
    check(function(*arguments, ctypes.byref(size)))
    return size.value


def library_version() -> str:
    """The version of libmaxsim.so, such as "0.2.0"."""
    version: bytes = _library.maxsim_version()
    return version.decode()


def device_available(device: str) -> bool:
    """Whether operators work on tensors of `device`, "cpu" or "cuda": the library has code for it, and the machine has
    such a device. Raises a ValueError for other names."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f'device is {device!r}; it is "cpu" or "cuda"')
    available = ctypes.c_int32()
    check(_library.maxsim_device_available(CPU if device == "cpu" else CUDA, ctypes.byref(available)))
    return available.value != 0


def workspace_bytes(call: Call, which: int) -> int:
    """The bytes of workspace that a pass (FORWARD or BACKWARD) needs."""
    return size_from(_library.maxsim_workspace_bytes, ctypes.byref(call), which)


def forward(call: Call, scores: int, argmax: int) -> None:
    """Calls maxsim_forward; `scores` and `argmax` are addresses, of which the second may be 0."""
    check(_library.maxsim_forward(ctypes.byref(call), scores, argmax or None))


def backward(call: Call, gradients: Gradients) -> None:
    """Calls maxsim_backward."""
    check(_library.maxsim_backward(ctypes.byref(call), ctypes.byref(gradients)))
