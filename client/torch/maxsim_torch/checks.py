"""Checks and converts arguments. Errors name the argument, its value and what is accepted.

Nothing reads the values of tensors before the library does. If the library refuses a value on the CPU, functions of
this module find out which of the caller's arguments has it.
"""

import operator
from typing import Any, Callable, List, Optional, TypeVar

import torch
from torch import Tensor

from .call_state import can_read

Result = TypeVar("Result")

# The limits of maxsim.h.
MAX_COLUMNS = 4096
MAX_QUERY_TOKENS = 4096
MAX_DOCUMENT_TOKENS = 65536


def check_tensors(**given: Any) -> None:
    """Raises TypeError for an argument that is not a dense tensor."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is of type {type(value).__name__}; must be a torch.Tensor")
        if not _is_dense(value):
            _refuse_layout(name, value)


def check_optional_tensors(**given: Any) -> None:
    """Raises TypeError for an argument that is neither a dense tensor nor None."""
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is of type {type(value).__name__}; must be a torch.Tensor or None")
        if not _is_dense(value):
            _refuse_layout(name, value)


def _is_dense(tensor: Tensor) -> bool:
    if tensor.layout is not torch.strided:
        return False
    # torch.compile cannot trace is_nested in the oldest supported releases of PyTorch.
    return torch.compiler.is_compiling() or not tensor.is_nested


def _refuse_layout(name: str, tensor: Tensor) -> None:
    if tensor.is_nested:
        raise TypeError(
            f"{name} is a nested tensor, and must be dense: padded with its lengths, or packed, such as the values() "
            f"and offsets() of a jagged tensor for maxsim_scores_packed"
        )
    raise TypeError(f"{name} has the layout {tensor.layout}; it must be dense (torch.strided)")


def real_factors(name: str, factors: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Converts factors to `dtype`. Raises TypeError for complex factors, whose imaginary part would be lost."""
    if factors.dtype == dtype:
        return factors
    if factors.is_complex():
        raise TypeError(f"{name} have type {factors.dtype}; must be real numbers")
    return factors.to(dtype)


def check_columns(name: str, rows: Tensor) -> None:
    """Raises ValueError for vectors that are shorter or longer than those of the library."""
    # Skips the check while a compiler traces: it would restrict the graph to certain sizes, but the graph must work for
    # all.
    if torch.compiler.is_compiling():
        return
    if rows.dim() > 0 and not 1 <= rows.shape[-1] <= MAX_COLUMNS:
        raise ValueError(f"{name} have {rows.shape[-1]} columns; must have 1 to {MAX_COLUMNS}")


def checked_number(name: str, value: Any) -> float:
    """Returns the number as a Python number. NumPy's numbers and tensors of one value are accepted. TypeError: it is
    not a number."""
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value  # type: ignore[return-value]
    if isinstance(value, Tensor) and value.requires_grad:
        raise NotImplementedError(f"{name} requires a gradient, but has none")
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is of type {type(value).__name__}; must be a number")
    return float(value)


def checked_count(name: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """Returns the integer as a Python int. NumPy's integers and tensors of one value are accepted. Raises if it is
    not an integer or not in `least` .. `most`."""
    if torch.compiler.is_compiling() or isinstance(value, torch.SymInt):
        return value  # type: ignore[no-any-return]
    try:
        count = int(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} is of type {type(value).__name__}; must be an integer") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{name} is {count}; must be {least}" + (" or more" if most is None else f" to {most}"))
    return count


def explained(compute: "Callable[[], Result]", explain: "Callable[[], None]") -> Result:
    """Returns the result of `compute`. If the library refuses a value, `explain` may raise a clearer error."""
    if torch.compiler.is_compiling():
        return compute()
    try:
        return compute()
    except ValueError as problem:
        refused = problem
    explain()
    raise refused


def explain_values(name: str, tensor: Optional[Tensor], most: int) -> None:
    """If the values can be read, raises ValueError for the first value outside 0 .. `most`."""
    if tensor is None or not can_read(tensor):
        return
    for place, value in enumerate(tensor.flatten().tolist()):
        if 0 <= value <= most:
            continue
        indices: "List[int]" = []
        for size in reversed(tensor.shape):
            indices.insert(0, place % size)
            place //= size
        where = f"[{', '.join(map(str, indices))}]" if indices else ""
        raise ValueError(f"{name}{where} is {value}; " + (f"must be 0 to {most}" if most >= 0 else "there are none"))


def explain_offsets(name: str, offsets: "List[int]", num_rows: int, max_tokens: int) -> None:
    """Raises ValueError for the first sequence that is not within `num_rows` rows or has more than `max_tokens`.
    Sequence i is from offsets[i] to offsets[i + 1]. `name` is "query" or "document"."""
    for idx, offset in enumerate(offsets):
        if not 0 <= offset <= num_rows:
            raise ValueError(f"{name}_offsets[{idx}] is {offset}; must be 0 to {num_rows}")
        before = offsets[max(idx - 1, 0)]
        if offset < before:
            raise ValueError(f"{name}_offsets[{idx}] is {offset}, but the one before is {before}; must not decrease")
        if offset - before > max_tokens:
            raise ValueError(f"{name} {idx - 1} has {offset - before} tokens; must have at most {max_tokens}")


def explain_places(name: str, offsets: "List[int]", lengths: "List[int]", num_rows: int) -> None:
    """Raises ValueError for the first sequence that is not within `num_rows` rows. Sequence i has lengths[i] rows,
    from offsets[i] on."""
    for idx, (offset, length) in enumerate(zip(offsets, lengths)):
        if not 0 <= offset <= num_rows - length:
            raise ValueError(f"{name} {idx} has {length} tokens from row {offset} on; there are {num_rows} rows")
