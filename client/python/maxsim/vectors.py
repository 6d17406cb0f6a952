"""Converts token vectors of any library to the form of messages and files. Imports neither grpc nor torch."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from . import dlpack
from .bfloat16 import widen_bfloat16


class SupportsDLPack(Protocol):
    """An array of any library that supports DLPack, for example a torch tensor."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


_NUMPY_TYPES = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "bf16": np.dtype("<u2")}


@dataclasses.dataclass(frozen=True)
class TokenVectors:
    """Token vectors in one of the service's element types.

    `data_type` is "f32", "f16" or "bf16". `data` is [tokens, dim], row-major and little-endian. For bfloat16 its type
    is uint16, the upper half of a float32."""

    data_type: str
    data: npt.NDArray[Any]

    def __post_init__(self) -> None:
        if self.data_type not in _NUMPY_TYPES:
            raise ValueError(f"data_type is {self.data_type!r}; must be one of {', '.join(_NUMPY_TYPES)}")
        if self.data.ndim != 2 or self.data.dtype != _NUMPY_TYPES[self.data_type] or not self.data.flags.c_contiguous:
            raise ValueError(
                f"data of {self.data_type} is a row-major [tokens, dim] of {_NUMPY_TYPES[self.data_type]}; "
                f"this is {self.data.shape} of {self.data.dtype}"
            )

    @property
    def num_tokens(self) -> int:
        return int(self.data.shape[0])

    @property
    def dim(self) -> int:
        return int(self.data.shape[1])

    def to_float32(self) -> npt.NDArray[np.float32]:
        """Returns the vectors as float32 [tokens, dim]. Does not copy if they are float32 already."""
        if self.data_type == "bf16":
            return widen_bfloat16(self.data)
        return self.data.astype(np.float32, copy=False)


# Vectors [tokens, dim]: an array of NumPy, torch or any library with DLPack, or a list of lists of numbers.
VectorsLike: TypeAlias = (
    "npt.NDArray[Any] | SupportsDLPack | TokenVectors | Sequence[Sequence[float]] | Sequence[npt.NDArray[Any]]"
)


def token_vectors(array: VectorsLike, *, name: str = "vectors") -> TokenVectors:
    """Returns [tokens, dim] vectors in an element type of the service.

    Takes NumPy arrays, torch tensors (on any device, with or without gradient), any array with DLPack, and lists of
    lists. float16, bfloat16 and float32 keep their type; float64 and lists become float32. ValueError, which begins
    with `name`: another shape or element type."""
    if isinstance(array, TokenVectors):
        return array
    values, is_bfloat16 = _as_numpy(array, name)
    if values.ndim != 2:
        raise ValueError(f"{name} has shape {_shape(values)}; token vectors are [tokens, dim]")
    if is_bfloat16:
        return TokenVectors("bf16", np.ascontiguousarray(values, "<u2"))
    kind = values.dtype.kind + str(values.dtype.itemsize)  # of either byte order
    if kind == "f2":
        return TokenVectors("f16", np.ascontiguousarray(values, "<f2"))
    if kind in ("f4", "f8"):
        return TokenVectors("f32", np.ascontiguousarray(values, "<f4"))
    raise ValueError(f"{name} has elements of {values.dtype}; token vectors are float16, bfloat16, float32 or float64")


def _shape(values: npt.NDArray[Any]) -> str:
    return f"[{', '.join(map(str, values.shape))}]"


def is_torch(array: object) -> bool:
    """Says whether this is a torch tensor. Does not import torch: if it is not imported, there are no tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _as_numpy(array: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    """Returns a NumPy array, and whether it holds bfloat16 as uint16."""
    if is_torch(array):
        return _from_torch(array, name)
    if isinstance(array, (np.ndarray, np.generic)):
        return _split_bfloat16(np.asarray(array))
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, name)
    if hasattr(array, "__array__"):
        return _split_bfloat16(np.asarray(array))
    if isinstance(array, (str, bytes, dict)) or not hasattr(array, "__len__") or not hasattr(array, "__getitem__"):
        raise ValueError(f"{name} is a {type(array).__name__}; token vectors are an array [tokens, dim]")
    return _from_rows(array, name)


def _split_bfloat16(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], bool]:
    """Returns an array of ml_dtypes' bfloat16 as uint16, and True. Returns any other array unchanged, and False."""
    if values.dtype.isbuiltin != 1 and values.dtype.name == "bfloat16":  # NumPy builds the name for each access
        return np.ascontiguousarray(values).view(np.uint16), True
    return values, False


def _from_torch(tensor: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} is a tensor of the layout {tensor.layout}; token vectors are dense")
    tensor = tensor.detach().cpu().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16), True
    try:
        return tensor.numpy(), False
    except TypeError as error:
        raise ValueError(f"{name} has elements of {tensor.dtype}, which NumPy has no type for") from error


def _from_dlpack(array: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    if dlpack.device_type(array) not in dlpack.CPU_DEVICES:
        if hasattr(array, "get"):  # CuPy's way to copy to the CPU's memory
            return _split_bfloat16(np.asarray(array.get()))
        if hasattr(array, "__array__"):
            return _split_bfloat16(np.asarray(array))
    try:
        return dlpack.read(array)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


def _from_rows(rows: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    """Converts a list of rows. Each row is a list of numbers or an array of any kind, and all have the same
    length."""
    if len(rows) and (is_torch(rows[0]) or isinstance(rows[0], np.ndarray) or hasattr(rows[0], "__dlpack__")):
        parts = [_as_numpy(row, f"{name}[{i}]") for i, row in enumerate(rows)]
        first = parts[0][0]
        for i, (part, is_bfloat16) in enumerate(parts):
            if part.shape != first.shape or is_bfloat16 != parts[0][1]:
                raise ValueError(f"{name}[{i}] differs from {name}[0] in shape or element type")
        return np.stack([part for part, _ in parts]), parts[0][1]
    try:
        values = np.asarray(rows)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} has rows of different lengths; token vectors are [tokens, dim]") from error
    if values.dtype == object:
        raise ValueError(f"{name} has rows of different lengths, or elements that are not numbers")
    return (values.astype(np.float32) if values.dtype.kind in "iu" else values), False
