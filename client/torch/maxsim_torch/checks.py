"""Arguments as they are wanted, and checks of them, whose errors name the argument, its value and what it may be.

Nothing looks at the values of tensors before the library does. Where that refuses one on the CPU, the functions here
say which of the caller's it is.
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
            raise TypeError(f"{name} is of the type {type(value).__name__}; it is a torch.Tensor")
        if not _is_dense(value):
            _refuse_layout(name, value)


def check_optional_tensors(**given: Any) -> None:
    """Raises TypeError for an argument that is neither a dense tensor nor None."""
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is of the type {type(value).__name__}; it is a torch.Tensor or None")
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
        raise TypeError(f"{name} have the type {factors.dtype}; they are real numbers")
    return factors.to(dtype)


def check_columns(name: str, rows: Tensor) -> None:
    """Raises ValueError for vectors that are shorter or longer than those of the library."""
    # Skipped while tracing: the check would restrict the graph, which is meant for any size, to some sizes.
    if torch.compiler.is_compiling():
        return
    if rows.dim() > 0 and not 1 <= rows.shape[-1] <= MAX_COLUMNS:
        raise ValueError(f"{name} have {rows.shape[-1]} columns; they have 1 to {MAX_COLUMNS}")


def checked_number(name: str, value: Any) -> float:
    """The number as Python's own: NumPy's are taken, and tensors of one value. Raises TypeError for what is none."""
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value  # type: ignore[return-value]
    if isinstance(value, Tensor) and value.requires_grad:
        raise NotImplementedError(f"{name} requires a gradient, and has none")
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is of the type {type(value).__name__}; it is a number")
    return float(value)


def checked_count(name: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """The integer as Python's own: NumPy's are taken, and tensors of one value. Raises for what is none, or not in the
    range."""
    if torch.compiler.is_compiling() or isinstance(value, torch.SymInt):
        return value  # type: ignore[no-any-return]
    try:
        count = int(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} is of the type {type(value).__name__}; it is an integer") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{name} is {count}; it is {least}" + (" or more" if most is None else f" to {most}"))
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
    """Raises ValueError for the first value that is not 0 to `most`, where values can be read."""
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
        raise ValueError(f"{name}{where} is {value}; " + (f"it is 0 to {most}" if most >= 0 else "there are none"))


def explain_offsets(name: str, offsets: "List[int]", num_rows: int, max_tokens: int) -> None:
    """Raises ValueError for the first sequence, from one of the offsets [sequences + 1] to the next, that is not among
    `num_rows` rows or has more than `max_tokens`. `name` is "query" or "document"."""
    for idx, offset in enumerate(offsets):
        if not 0 <= offset <= num_rows:
            raise ValueError(f"{name}_offsets[{idx}] is {offset}; it is 0 to {num_rows}")
        before = offsets[max(idx - 1, 0)]
        if offset < before:
            raise ValueError(f"{name}_offsets[{idx}] is {offset}, and the one before {before}; they do not decrease")
        if offset - before > max_tokens:
            raise ValueError(f"{name} {idx - 1} has {offset - before} tokens; it has at most {max_tokens}")


def explain_places(name: str, offsets: "List[int]", lengths: "List[int]", num_rows: int) -> None:
    """Raises ValueError for the first sequence, of `lengths` [sequences] from `offsets` [sequences] on, that is not
    among `num_rows` rows."""
    for idx, (offset, length) in enumerate(zip(offsets, lengths)):
        if not 0 <= offset <= num_rows - length:
            raise ValueError(f"{name} {idx} has {length} tokens from row {offset} on; there are {num_rows} rows")
