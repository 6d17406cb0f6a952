"""Documents whose token vectors are tensors of torch or arrays of NumPy, in a list or in a dictionary by id."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from maxsim.importers.source import SourceError
from maxsim.importers.readers.torch_files import Tensor

TensorLike = Union[Tensor, np.ndarray]


def is_tensor(value: object) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def document_shape(value: object, where: str) -> Tuple[int, int]:
    """Returns the number of tokens and columns of a document: a tensor [tokens, dim] or [1, tokens, dim] of
    floating-point numbers."""
    if not isinstance(value, (Tensor, np.ndarray)):
        raise SourceError(f"{where}: is a {type(value).__name__}; must be a tensor [tokens, dim]")
    shape = tuple(value.shape)
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    kind = value.dtype if isinstance(value, Tensor) else value.dtype.kind
    if len(shape) != 2 or kind not in ("f16", "bf16", "f32", "f64", "f"):
        raise SourceError(f"{where}: is a tensor {list(value.shape)} of {value.dtype}; must be [tokens, dim] of floats")
    return int(shape[0]), int(shape[1])


def document_vectors(value: object, where: str) -> np.ndarray:
    """Returns a document's vectors [tokens, dim]: float16 if the tensor is float16, and otherwise float32."""
    shape = document_shape(value, where)
    array = value.array() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype != np.float16:
        array = array.astype(np.float32, copy=False)
    return array.reshape(shape)


def find_dim(tensors: Iterator[object], where: str) -> int:
    """Returns the number of columns of the first document that has a token, or else of the first document."""
    dim: Optional[int] = None
    for index, value in enumerate(tensors):
        tokens, columns = document_shape(value, f"{where}: document {index}")
        if tokens:
            return columns
        dim = dim or columns
    if dim is None:
        raise SourceError(f"{where}: holds no document")
    return dim


def natural_order(names: Sequence[str]) -> List[str]:
    """Sorts names by the numbers in them: part-2 comes before part-10."""

    def key(name: str) -> Tuple[Tuple[int, str], ...]:
        digits = ""
        parts: List[Tuple[int, str]] = []
        for character in name + "\0":
            if character.isdecimal():
                digits += character
                continue
            if digits:
                parts.append((int(digits), ""))
                digits = ""
            parts.append((-1, character))
        return tuple(parts)

    return sorted(names, key=key)
