"""Converts the tensors that callers have into the form of queries and documents that the operators take."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from . import library
from .call_state import can_read
from .checks import (
    MAX_DOCUMENT_TOKENS,
    MAX_QUERY_TOKENS,
    check_tensors,
    explain_offsets,
    explain_places,
    explain_values,
)

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
TYPES = (*FLOATS, torch.int8, *FLOAT8)


class Tokens(NamedTuple):
    """Queries or documents as the operator takes them."""

    rows: Tensor
    offsets: Optional[Tensor]
    mask: Optional[Tensor]
    lengths: Optional[Tensor]
    scales: Optional[Tensor]
    scale_of: int
    num_sequences: int
    max_tokens: int


def plain_tokens(rows: Tensor, mask: Optional[Tensor] = None, lengths: Optional[Tensor] = None) -> Tokens:
    """Makes Tokens of padded sequences [sequences, max_tokens, dim] without scales. Checks nothing."""
    return Tokens(rows, None, mask, lengths, None, library.SCALE_PER_SEQUENCE, rows.shape[0], rows.shape[1])


def flat(tokens: Tokens) -> Tokens:
    """Reshapes padded sequences of any number of dimensions to [sequences, max_tokens, dim], and their mask, lengths
    and scales to match."""
    count, most = tokens.num_sequences, tokens.max_tokens
    of_tokens = tokens.scale_of == library.SCALE_PER_TOKEN
    return tokens._replace(
        rows=tokens.rows.reshape(count, most, tokens.rows.shape[-1]),
        mask=shaped(tokens.mask, (count, most)),
        lengths=shaped(tokens.lengths, (count,)),
        scales=shaped(tokens.scales, (count, most) if of_tokens else (count,)),
    )


def shaped(tensor: Optional[Tensor], shape: "tuple[int, ...]") -> Optional[Tensor]:
    """Returns the tensor in another shape; None stays None."""
    return None if tensor is None else tensor.reshape(shape)


def counting(
    shape: "tuple[int, ...]",
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    device: torch.device,
) -> Tensor:
    """Returns which of the tokens [..., max_tokens] count, according to lengths [...] and mask [..., max_tokens]."""
    counts = torch.ones(shape, dtype=torch.bool, device=device)
    if lengths is not None:
        counts &= torch.arange(shape[-1], device=device) < lengths.unsqueeze(-1)
    if mask is not None:
        counts &= mask == 1  # works for booleans, too
    return counts


def explain_tokens(name: str, tokens: Tokens) -> None:
    """Raises ValueError for the first wrong length or offset of "query" or "document" tokens, where values can be
    read."""
    if tokens.offsets is None:
        explain_values(f"{name}_lengths", tokens.lengths, tokens.max_tokens)
        return
    if not can_read(tokens.offsets):
        return
    offsets, num_rows = tokens.offsets.tolist(), tokens.rows.shape[0]
    if tokens.lengths is None:
        explain_offsets(name, offsets, num_rows, tokens.max_tokens)
    elif can_read(tokens.lengths):
        explain_values(f"{name}_lengths", tokens.lengths, tokens.max_tokens)
        explain_places(name, offsets, tokens.lengths.tolist(), num_rows)


def _check_padded(name: str, max_tokens: int) -> None:
    # Skip the check while tracing: it would restrict the graph, which may be meant for any number of tokens.
    if torch.compiler.is_compiling():
        return
    limit = MAX_QUERY_TOKENS if name == "query" else MAX_DOCUMENT_TOKENS
    if max_tokens > limit:
        raise ValueError(f"a {name} has up to {max_tokens} tokens; at most {limit} are allowed")


def check_type(name: str, rows: Tensor, scales: Optional[Tensor]) -> None:
    if rows.dtype not in TYPES:
        raise TypeError(
            f"{name} have type {rows.dtype}; must be float32, float16, bfloat16, int8, float8_e4m3fn or float8_e5m2"
        )
    if rows.dtype in FLOAT8:
        return
    if (rows.dtype == torch.int8) != (scales is not None):
        how = "without" if scales is None else "with"
        raise ValueError(
            f"{name} of {rows.dtype} come {how} scales; int8 needs scales, and of other types only float8 may have them"
        )


def indices(name: str, tensor: Tensor, shape: "tuple[int, ...]") -> Tensor:
    """Checks that a tensor has a certain shape and an integer type, and returns it in int32 or int64."""
    check_tensors(**{name: tensor})
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} have type {tensor.dtype}; must be integers")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} have shape {tuple(tensor.shape)}; must be {shape}")
    return tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.to(torch.int64)


def of_one_type(lengths: "list[Optional[Tensor]]") -> "list[Optional[Tensor]]":
    """Returns the lengths, converted to int64 if they have different types."""
    if len({one.dtype for one in lengths if one is not None}) > 1:
        return [None if one is None else one.to(torch.int64) for one in lengths]
    return lengths


def flat_rows(rows: Tensor) -> Tensor:
    """Reshapes [..., rows, d] to [sets, rows, d]."""
    count = 1
    for size in rows.shape[:-2]:
        count = count * size
    return rows.reshape(count, rows.shape[-2], rows.shape[-1])


def _mask(name: str, mask: Optional[Tensor], shape: "tuple[int, ...]") -> Optional[Tensor]:
    if mask is None:
        return None
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; must be {shape}")
    if mask.is_complex():
        raise TypeError(f"{name} has type {mask.dtype}; must be booleans or numbers")
    return as_booleans(name, mask)


def as_booleans(name: str, mask: Tensor) -> Tensor:
    """Returns where a mask of booleans or numbers is 1. Raises ValueError for the first value other than 0 and 1, if
    values can be read. If they cannot (on a GPU or while tracing), a token with another value does not count, so an
    additive mask (0 and -inf) never selects the padding."""
    if mask.dtype == torch.bool:
        return mask
    counts = mask == 1
    if can_read(mask):
        wrong = (~counts & (mask != 0)).flatten()
        if bool(wrong.any()):
            place = int(wrong.to(torch.uint8).argmax())
            raise ValueError(
                f"{name} has the value {mask.flatten()[place].item()} at {place} of its {mask.numel()}; must be "
                f"booleans, or 0 and 1 (of an additive mask, with 0 and -inf, pass mask == 0)"
            )
    return counts


def _scales(name: str, scales: Tensor) -> Tensor:
    """Scales in float32, in any shape."""
    if scales.is_complex():
        raise TypeError(f"{name} have type {scales.dtype}; must be real numbers")
    return scales.to(torch.float32)


def _padded_scales(
    name: str, scales: Optional[Tensor], outer: "tuple[int, ...]", max_tokens: int
) -> "tuple[Optional[Tensor], int]":
    """Returns scales as a vector, and whether there is one per sequence or per token, which their shape shows. A scalar
    becomes one per sequence."""
    if scales is not None:
        scales = _scales(name, scales)
        if scales.dim() == 0:
            scales = scales.expand(outer)
    if scales is None or tuple(scales.shape) == outer:
        scale_of = library.SCALE_PER_SEQUENCE
    elif tuple(scales.shape) == (*outer, max_tokens):
        scale_of = library.SCALE_PER_TOKEN
    else:
        raise ValueError(f"{name} have shape {tuple(scales.shape)}; must be {outer} or {(*outer, max_tokens)}")
    return None if scales is None else scales.reshape(-1), scale_of


def _packed_scales(name: str, scales: Optional[Tensor], count: int, num_rows: int) -> "tuple[Optional[Tensor], int]":
    """Returns scales of packed sequences as a vector, and whether there is one per sequence or per token. ValueError if
    their shape could mean either."""
    if scales is None:
        return None, library.SCALE_PER_SEQUENCE
    scales = _scales(name, scales)
    if scales.dim() == 0:
        return scales.expand(count), library.SCALE_PER_SEQUENCE
    # torch.compile cannot search a tuple of tuples for a tuple of symbolic sizes, so sizes are compared one by one.
    shape, size = tuple(scales.shape), scales.shape[0]
    of_sequences = len(shape) == 1 and size == count
    of_tokens = size == num_rows and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))
    if of_sequences and of_tokens and count > 1:
        raise ValueError(
            f"{name} have shape {shape}, but there are {count} sequences and {num_rows} tokens; make them "
            f"[tokens, 1], a scale for each token"
        )
    if not of_sequences and not of_tokens:
        raise ValueError(f"{name} have shape {shape}; must be {(count,)}, {(num_rows,)} or {(num_rows, 1)}")
    return scales.reshape(-1), library.SCALE_PER_SEQUENCE if of_sequences else library.SCALE_PER_TOKEN


def padded_queries(
    queries: Tensor, lengths: Optional[Tensor], mask: Optional[Tensor], scales: Optional[Tensor]
) -> "tuple[Tokens, bool]":
    """Makes Tokens of queries [Nq, Lq, d], or of one query [Lq, d]. Also returns whether it is one query."""
    one_query = queries.dim() == 2
    if queries.dim() not in (2, 3):
        raise ValueError(f"queries have shape {tuple(queries.shape)}; must be [Nq, Lq, d] or [Lq, d]")
    if one_query and lengths is not None:
        if lengths.numel() != 1:
            raise ValueError(f"query_lengths have shape {tuple(lengths.shape)}; one query has one length")
        lengths = lengths.reshape(())
    return padded("query", queries, lengths, mask, scales), one_query


def padded(
    name: str,
    rows: Tensor,
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    scales: Optional[Tensor],
) -> Tokens:
    """Makes Tokens of padded sequences [..., max_tokens, dim]. `name` is "query" or "document"."""
    outer = tuple(rows.shape[:-2])
    count = 1
    for size in outer:
        count = count * size
    max_tokens = rows.shape[-2]
    _check_padded(name, max_tokens)
    if lengths is not None:
        lengths = indices(f"{name}_lengths", lengths, outer)
    mask = _mask(f"{name}_mask", mask, (*outer, max_tokens))
    scales, scale_of = _padded_scales(f"{name}_scales", scales, outer, max_tokens)
    return Tokens(rows, None, mask, lengths, scales, scale_of, count, max_tokens)


def packed(
    name: str,
    rows: Tensor,
    offsets: Tensor,
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    scales: Optional[Tensor],
    max_tokens: int,
) -> Tokens:
    """Makes Tokens of packed sequences [tokens, dim] and their offsets. `name` is "query" or "document"."""
    if rows.dim() != 2:
        plural = "queries" if name == "query" else "documents"
        raise ValueError(f"{plural} have shape {tuple(rows.shape)}; packed ones must be [tokens, d]")
    if offsets.dim() != 1:
        raise ValueError(f"{name}_offsets have shape {tuple(offsets.shape)}; must be a vector")
    if lengths is None and offsets.shape[0] == 0:
        raise ValueError(f"{name}_offsets are empty; without lengths there must be one more than sequences")
    offsets = indices(f"{name}_offsets", offsets, tuple(offsets.shape))
    if lengths is None:
        count = offsets.shape[0] - 1
    else:
        count = offsets.shape[0]
        lengths = indices(f"{name}_lengths", lengths, (count,))
        if lengths.dtype != offsets.dtype:
            offsets, lengths = offsets.to(torch.int64), lengths.to(torch.int64)
    mask = _mask(f"{name}_mask", mask, (rows.shape[0],))
    scales, scale_of = _packed_scales(f"{name}_scales", scales, count, rows.shape[0])
    return Tokens(rows, offsets, mask, lengths, scales, scale_of, count, max_tokens)
