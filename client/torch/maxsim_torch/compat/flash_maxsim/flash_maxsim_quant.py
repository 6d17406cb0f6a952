"""Quantises documents and queries to INT8 with a scale per token, and scores them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._arguments import ArgumentError, counts, parts, require, require_columns, require_dims, require_forms

# The smallest scale. It prevents a division by zero for a row of zeros.
_LEAST = 1e-8


@torch.no_grad()
def quantize_int8(D: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantises D [B, Ld, d]. Returns (codes [B, Ld, d] in uint8, scales and mins, both [B, Ld, 1] in float16). A value
    is about code * scale + min. A row's smallest value has code 0, and its largest has 255."""
    require_dims("D", D, "[B, Ld, d]")
    low, high = (bound.float() for bound in D.aminmax(dim=-1, keepdim=True))
    scales = ((high - low) / 255.0).clamp_min(_LEAST)
    codes = torch.empty(D.shape, dtype=torch.uint8, device=D.device)
    for begin, end in parts(D.shape[0], D[:1].numel() * 4):
        values = (D[begin:end].float() - low[begin:end]) / scales[begin:end]
        codes[begin:end] = values.round_().clamp_(0, 255)
    return codes, scales.half(), low.half()


@torch.no_grad()
def quantize_int8_symmetric(D: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises D [B, Ld, d]. Returns (codes [B, Ld, d] in int8 from -127 to 127, scales [B, Ld, 1] in float16). A
    value is about code * scale."""
    require_dims("D", D, "[B, Ld, d]")
    scales = _symmetric_scales(D)
    codes = torch.empty(D.shape, dtype=torch.int8, device=D.device)
    for begin, end in parts(D.shape[0], D[:1].numel() * 4):
        codes[begin:end] = (D[begin:end].float() / scales[begin:end]).round_().clamp_(-127, 127)
    return codes, scales.half()


@torch.no_grad()
def quantize_query_int8(Q: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises Q [Lq, d]. Returns (codes [Lq, d] in int8 from -127 to 127, scales [Lq] in float16)."""
    scales = _symmetric_scales(Q)
    return (Q.float() / scales).round_().clamp_(-127, 127).to(torch.int8), scales.squeeze(-1).half()


def _symmetric_scales(rows: Tensor) -> Tensor:
    return rows.abs().amax(dim=-1, keepdim=True).float().clamp_min(_LEAST) / 127.0


def dequantize_int8(D_uint8: Tensor, scales: Tensor, mins: Tensor) -> Tensor:
    """Returns the values in float32 that the codes, scales and mins of quantize_int8 represent."""
    return D_uint8.float() * scales.float() + mins.float()


def _score_restored(
    query: Tensor, codes: Tensor, restore: Callable[[int, int], Tensor], doc_lengths: Tensor | None
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents in codes [B, Ld, d]. `restore` returns the float32 values of a
    range of documents."""
    require_dims("Q", query, "[Lq, d]")
    require_dims("the documents", codes, "[B, Ld, d]")
    require_columns("Q", query, "the documents", codes)
    lengths = counts("doc_lengths", doc_lengths, (codes.shape[0],))
    # The product of an 8-bit code and a scale with an 11-bit significand does not fit into bfloat16.
    dtype = torch.float32 if query.dtype in (torch.float32, torch.float64) else torch.float16
    scores = torch.empty(codes.shape[0], dtype=torch.float32, device=codes.device)
    for begin, end in parts(codes.shape[0], codes[:1].numel() * 4):
        scores[begin:end] = maxsim_scores(
            query.to(dtype),
            restore(begin, end).to(dtype),
            document_lengths=None if lengths is None else lengths[begin:end],
        )
    return scores


def _a_token(name: str, numbers: Tensor, codes: Tensor) -> Tensor:
    """Returns numbers [B, Ld] or [B, Ld, 1] as [B, Ld, 1]."""
    shape = tuple(codes.shape[:2])
    require(
        tuple(numbers.shape) in (shape, (*shape, 1)),
        f"{name} has shape {tuple(numbers.shape)}; must be {shape} or {(*shape, 1)}",
    )
    return numbers.reshape(*shape, 1)


@torch.no_grad()
def flash_maxsim_int8(
    Q: Tensor,
    D_uint8: Tensor,
    scales: Tensor,
    mins: Tensor,
    doc_lengths: Tensor | None = None,
    query_chunk_size: int | None = 128,
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents from quantize_int8: codes [B, Ld, d], scales and mins [B, Ld]
    or [B, Ld, 1]. `query_chunk_size` has no effect."""
    require_dims("D_uint8", D_uint8, "[B, Ld, d]")
    scale, low = _a_token("scales", scales, D_uint8), _a_token("mins", mins, D_uint8)

    def restore(begin: int, end: int) -> Tensor:
        return dequantize_int8(D_uint8[begin:end], scale[begin:end], low[begin:end])

    return _score_restored(Q, D_uint8, restore, doc_lengths)


@torch.no_grad()
def flash_maxsim_int8_symmetric(
    Q: Tensor,
    D_int8: Tensor,
    scales: Tensor,
    doc_lengths: Tensor | None = None,
    query_chunk_size: int | None = 128,
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents from quantize_int8_symmetric: codes [B, Ld, d], scales [B, Ld]
    or [B, Ld, 1]. `query_chunk_size` has no effect."""
    require_dims("D_int8", D_int8, "[B, Ld, d]")
    scale = _a_token("scales", scales, D_int8)

    def restore(begin: int, end: int) -> Tensor:
        return D_int8[begin:end].float() * scale[begin:end].float()

    return _score_restored(Q, D_int8, restore, doc_lengths)


@torch.no_grad()
def flash_maxsim_int8x8(
    Q: Tensor | None,
    D_int8: Tensor,
    d_scales: Tensor,
    Q_int8: Tensor | None = None,
    q_scales: Tensor | None = None,
    doc_lengths: Tensor | None = None,
    query_chunk_size: int | None = 128,
) -> Tensor:
    """Returns the scores [B] of an INT8 query with INT8 documents: codes [B, Ld, d] and d_scales [B, Ld] or [B, Ld, 1].
    The query is Q_int8 [Lq, d] with q_scales [Lq], or Q [Lq, d] in floating point, which quantize_query_int8 converts.
    `query_chunk_size` has no effect."""
    if Q_int8 is None or q_scales is None:
        if Q is None:
            raise ArgumentError("Q is None, and so is Q_int8 or q_scales; one of the two forms of the query is needed")
        Q_int8, q_scales = quantize_query_int8(Q)
    require_forms(Q_int8=(Q_int8, "[Lq, d]"), D_int8=(D_int8, "[B, Ld, d]"))
    return maxsim_scores(
        Q_int8,
        D_int8,
        query_scales=q_scales.reshape(-1),
        document_scales=_a_token("d_scales", d_scales, D_int8).squeeze(-1),
        document_lengths=counts("doc_lengths", doc_lengths, (D_int8.shape[0],)),
    )
