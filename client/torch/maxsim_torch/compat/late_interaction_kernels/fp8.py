"""Scores float8 queries and documents, and converts values to float8."""

from typing import Optional

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._scoring import batches

# The largest value of float8_e4m3fn, and the smallest magnitude for which a scale is computed.
_LARGEST = 448.0
_SMALLEST_MAGNITUDE = 1e-6


def _quantized(X: Tensor, magnitudes: Tensor, dtype: torch.dtype) -> "tuple[Tensor, Tensor]":
    """Divides X by the scales that turn `magnitudes` into the largest value. Returns the result, and the scales."""
    scales = magnitudes.clamp_min(_SMALLEST_MAGNITUDE).to(torch.float32) / _LARGEST
    values = (X.to(torch.float32) / scales).clamp(-_LARGEST, _LARGEST).to(dtype)
    return values.contiguous(), scales


def quantize_fp8_per_tensor(X: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> "tuple[Tensor, Tensor]":
    """Converts X to float8. Returns the values and one scale [] in float32: X is about values.float() * scale. The
    largest magnitude becomes 448. The scale of an X without elements is 1."""
    if X.numel() == 0:
        return X.to(dtype), torch.ones((), device=X.device)
    return _quantized(X, X.abs().amax(), dtype)


def quantize_fp8_per_token(X: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> "tuple[Tensor, Tensor]":
    """Converts X [..., d] to float8. Returns the values and a scale per token, [...] in float32. The largest magnitude
    of each token becomes 448."""
    values, scales = _quantized(X, X.abs().amax(dim=-1, keepdim=True), dtype)
    return values, scales.squeeze(-1)


def dequantize_fp8_per_tensor(X_fp8: Tensor, scale: Tensor) -> Tensor:
    """Values in float32 times the scale [] of all."""
    return X_fp8.to(torch.float32) * scale


def dequantize_fp8_per_token(X_fp8: Tensor, scale: Tensor) -> Tensor:
    """Returns the values [..., d] times the scales [...] of their tokens, in float32."""
    return X_fp8.to(torch.float32) * scale.unsqueeze(-1)


def _scales(scales: Tensor, tokens: Tensor) -> Tensor:
    """Returns a single scale as [], and scales of tokens as [..., L], the dimensions of `tokens` [..., L, d]."""
    return scales.reshape(()) if scales.numel() == 1 else scales.reshape(tokens.shape[:-1])


def maxsim_inference_fp8(
    Q: Tensor,
    D: Tensor,
    *,
    scale_Q: Tensor,
    scale_D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
) -> Tensor:
    """Returns the scores [Nq, Nd] in float32, without gradients, of queries [Nq, Lq, d] or [Lq, d] with documents [Nd,
    Ld, d] or [Ld, d]. Both are in float8_e4m3fn or float8_e5m2 and have scales: one for all, [], or one per token, [Nq,
    Lq] and [Nd, Ld].

    Masks and shapes are those of maxsim. On every device, values are converted to a wider type without rounding, one
    block of documents at a time. ValueError: Q and D have different numbers of columns.
    """
    if Q.shape[-1] != D.shape[-1]:
        raise ValueError(f"Q has {Q.shape[-1]} columns and D {D.shape[-1]}; they must have the same number")
    made = batches(Q, D, q_mask, d_mask)
    with torch.no_grad():
        scores = maxsim_scores(
            made.Q,
            made.D,
            query_mask=None if made.q_mask is None else made.q_mask.expand(made.Q.shape[:-1]),
            document_mask=None if made.d_mask is None else made.d_mask.expand(made.D.shape[:-1]),
            query_scales=_scales(scale_Q, made.Q),
            document_scales=_scales(scale_D, made.D),
            empty_score=0.0,
        )
    return made.without(scores)


__all__ = [
    "dequantize_fp8_per_tensor",
    "dequantize_fp8_per_token",
    "maxsim_inference_fp8",
    "quantize_fp8_per_tensor",
    "quantize_fp8_per_token",
]
