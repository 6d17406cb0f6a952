"""libmaxsim.so through ctypes: its structures (kernels/library/include/maxsim/maxsim.h) and its functions."""

import ctypes
import os
import pathlib
import typing
from typing import Any, List, Optional, Tuple

# The numbers of maxsim.h.
CPU, CUDA = 0, 1
F32, F16, BF16, I8 = 1, 2, 3, 4
PADDED, PACKED, SCATTERED = 0, 1, 2
INT64, INT32 = 0, 1
SCALE_PER_SEQUENCE, SCALE_PER_TOKEN = 0, 1
ALL, PAIRS, LISTS = 0, 1, 2
FORWARD, BACKWARD = 0, 1

_INVALID_ARGUMENT, _OUT_OF_MEMORY, _UNSUPPORTED = 1, 2, 3


class LibraryError(RuntimeError):
    """The library failed for a reason other than its arguments, such as an error of CUDA."""


Fields = List[Tuple[str, Any]]


def int32s(*names: str) -> Fields:
    return [(name, ctypes.c_int32) for name in names]


def int64s(*names: str) -> Fields:
    return [(name, ctypes.c_int64) for name in names]


def pointers(*names: str) -> Fields:
    return [(name, ctypes.c_void_p) for name in names]


# The first member of every structure, and the last members of every call.
STRUCT_SIZE: Fields = [("struct_size", ctypes.c_size_t)]
WORKSPACE: Fields = [*pointers("stream", "workspace"), ("workspace_bytes", ctypes.c_size_t)]


class Tokens(ctypes.Structure):
    """The structure maxsim_tokens: queries or documents."""

    _fields_: typing.ClassVar = [
        *STRUCT_SIZE,
        *int32s("layout", "type", "dim", "index_type"),
        *int64s("num_sequences", "max_tokens", "num_rows"),
        *pointers("rows", "offsets", "lengths", "mask", "scales"),
        *int32s("scale_of", "reserved"),
    ]


class Call(ctypes.Structure):
    """The structure maxsim_call: what is scored, and on which device. `queries` and `documents` are addresses of
    Tokens."""

    _fields_: typing.ClassVar = [
        *STRUCT_SIZE,
        *int32s("device", "pairing"),
        *pointers("queries", "documents", "weights", "candidates"),
        *int64s("list_length"),
        ("empty_score", ctypes.c_float),
        *int32s("num_threads"),
        *WORKSPACE,
    ]


class Gradients(ctypes.Structure):
    """The structure maxsim_gradients: what maxsim_backward takes and writes."""

    _fields_: typing.ClassVar = [
        *STRUCT_SIZE,
        *pointers("argmax", "score_gradients", "query_gradients", "document_gradients", "weight_gradients"),
    ]


def _find() -> str:
    """Returns the path of the library: MAXSIM_LIBRARY, otherwise the one in this package, otherwise a name that the
    system's loader looks up."""
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
    return library


_library = _load()


def check(status: int) -> None:
    """Raises the error of a status: ValueError, MemoryError, NotImplementedError or LibraryError."""
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


class Passes:
    """The functions of a family of operators: `name`_workspace_bytes, `forward`, and `name`_backward as `backward`.

    Their first argument is a call. If `codes` is given, a structure of that type is the second. After these, the
    forward pass takes the addresses of its results, and the backward pass takes the gradients. Both return a status
    for `check`."""

    def __init__(
        self,
        name: str,
        call: "type[ctypes.Structure]",
        gradients: "type[ctypes.Structure]",
        forward: str = "",
        codes: "Optional[type[ctypes.Structure]]" = None,
    ):
        self.gradients = gradients
        taken = [ctypes.POINTER(structure) for structure in (call, codes) if structure is not None]
        # With codes, both passes need a workspace of the same size, so the function that returns the size is not told
        # which pass.
        which = [ctypes.c_int32] if codes is None else []
        self._size = _loaded(f"{name}_workspace_bytes", [*taken, *which, ctypes.POINTER(ctypes.c_size_t)])
        self.forward = _loaded(forward or name, [*taken, ctypes.c_void_p, ctypes.c_void_p])
        self.backward = _loaded(f"{name}_backward", [*taken, ctypes.POINTER(gradients)])

    def workspace_bytes(self, call: ctypes.Structure, which: int, *codes: ctypes.Structure) -> int:
        """Returns the bytes of workspace that a pass (FORWARD or BACKWARD) needs."""
        size = ctypes.c_size_t()
        check(self._size(call, *(codes or (which,)), size))
        return size.value


def _loaded(name: str, arguments: "list[Any]") -> Any:
    """Returns a function of the library, with the types of its arguments. The function returns a status for `check`."""
    function = getattr(_library, name)
    function.argtypes = arguments
    return function


MAXSIM = Passes("maxsim", Call, Gradients, forward="maxsim_forward")


def library_version() -> str:
    """The version of libmaxsim.so, such as "0.2.0"."""
    version: bytes = _library.maxsim_version()
    return version.decode()


def device_available(device: str) -> bool:
    """Returns whether operators work on tensors of `device`, "cpu" or "cuda": the library must have code for it, and
    the machine must have such a device. ValueError: another name."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f'device is {device!r}; must be "cpu" or "cuda"')
    available = ctypes.c_int32()
    check(_library.maxsim_device_available(CPU if device == "cpu" else CUDA, ctypes.byref(available)))
    return available.value != 0
