"""Arguments as they are wanted, and checks of them, whose errors name the argument, its value and what it may be.

Values of tensors are looked at on the CPU alone, where that waits for nothing, and not where the call is traced.
"""

import numbers
from typing import Any, Optional, Type

import torch
from torch import Tensor

from .direct_calls import can_read

# The limits of maxsim.h.
MAX_COLUMNS = 4096
MAX_QUERY_TOKENS = 4096
MAX_DOCUMENT_TOKENS = 65536


def check_tensors(**given: Any) -> None:
    """Raises TypeError for an argument that is no tensor."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is of the type {type(value).__name__}; it is a torch.Tensor")


def check_optional_tensors(**given: Any) -> None:
    """Raises TypeError for an argument that is neither a tensor nor None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name} is of the type {type(value).__name__}; it is a torch.Tensor or None")


def checked_number(name: str, value: Any) -> float:
    """The number, one of NumPy's as Python's own. Raises TypeError for what is none."""
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is of the type {type(value).__name__}; it is a number")
    return float(value)


def checked_count(name: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """The integer, one of NumPy's as Python's own. Raises for what is none, or not in the range."""
    if not isinstance(value, (int, torch.SymInt)):
        if not isinstance(value, numbers.Integral):
            raise TypeError(f"{name} is of the type {type(value).__name__}; it is an integer")
        value = int(value)
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} is {value}; it is {least}" + (" or more" if most is None else f" to {most}"))
    return value


def check_values(name: str, tensor: Tensor, most: int, error: "Type[ValueError]" = ValueError) -> None:
    """Raises an error for a value that is not 0 to `most`, where values can be read."""
    if tensor.numel() == 0 or not can_read(tensor):
        return
    low, high = tensor.aminmax()
    if low >= 0 and high <= most:
        return
    place = ((tensor < 0) | (tensor > most)).nonzero()[0].tolist()
    where = f"[{', '.join(map(str, place))}]" if place else ""
    raise error(f"{name}{where} is {tensor[tuple(place)].item()}; it is 0 to {most}")


def _first(wrong: Tensor) -> Optional[int]:
    """The first index of a vector of booleans that is true."""
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def check_offsets(name: str, offsets: Tensor, num_rows: int, max_tokens: int) -> None:
    """Raises ValueError for sequences from one of the offsets [sequences + 1] to the next that are not among `num_rows`
    rows or have more than `max_tokens`, where values can be read. `name` is "query" or "document"."""
    if not can_read(offsets):
        return
    check_values(f"{name}_offsets", offsets, num_rows)
    counts = offsets.diff()
    place = _first(counts < 0)
    if place is not None:
        more, less = offsets[place : place + 2].tolist()
        raise ValueError(f"{name}_offsets[{place + 1}] is {less}, and the one before {more}; they do not decrease")
    place = _first(counts > max_tokens)
    if place is not None:
        raise ValueError(f"{name} {place} has {counts[place].item()} tokens; it has at most {max_tokens}")


def check_places(name: str, offsets: Tensor, lengths: Tensor, num_rows: int, max_tokens: int) -> None:
    """As check_offsets, for sequences of `lengths` [sequences] from `offsets` [sequences] on."""
    if not can_read(offsets) or not can_read(lengths):
        return
    check_values(f"{name}_offsets", offsets, num_rows)
    check_values(f"{name}_lengths", lengths, max_tokens)
    place = _first(offsets.to(torch.int64) + lengths > num_rows)
    if place is not None:
        raise ValueError(
            f"{name} {place} has {lengths[place].item()} tokens from row {offsets[place].item()} on; there are "
            f"{num_rows} rows"
        )


def check_columns(name: str, rows: Tensor) -> None:
    """Raises ValueError for vectors that are shorter or longer than those of the library."""
    if torch.compiler.is_compiling():
        return
    if rows.dim() > 0 and not 1 <= rows.shape[-1] <= MAX_COLUMNS:
        raise ValueError(f"{name} have {rows.shape[-1]} columns; they have 1 to {MAX_COLUMNS}")
