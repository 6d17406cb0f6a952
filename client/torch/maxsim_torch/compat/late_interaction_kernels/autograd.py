"""maxsim and maxsim_pairs: scores of padded queries and documents, with gradients."""

import os
import warnings
from typing import Optional

import torch
from torch import Tensor

from ...checks import check_optional_tensors, check_tensors
from ._scoring import batches, padded_scores

_VALID_METHODS = ("auto", "unified", "lowmem")

# Whether the lengths of query tokens have been checked. Only the first call checks them, because this waits for the
# GPU.
_NORM_CHECKED = False
_TOKENS_LOOKED_AT = 64


def _maybe_warn_unnormalized(Q: Tensor) -> None:
    """Warns once per process if tokens are not normalised and `normalize` is off, because late-interaction models make
    tokens of length 1. LIK_SUPPRESS_NORM_WARN=1 turns the warning off."""
    global _NORM_CHECKED
    if _NORM_CHECKED or os.environ.get("LIK_SUPPRESS_NORM_WARN", "0") == "1":
        return
    if torch.compiler.is_compiling() or (Q.is_cuda and torch.cuda.is_current_stream_capturing()):
        return  # A graph that is compiled or captured must not wait for a value.
    _NORM_CHECKED = True
    tokens = Q.detach().reshape(-1, Q.shape[-1])[:_TOKENS_LOOKED_AT]
    if tokens.numel() == 0:
        return
    median = tokens.float().norm(dim=-1).median().item()
    if not 0.9 <= median <= 1.1:
        warnings.warn(
            f"late-interaction-kernels (maxsim_torch): query tokens have the length {median:.3f} (median), and "
            f"normalize=False scores them as they are. Models of late interaction have lengths of 1: pass "
            f"normalize=True, or normalise before. LIK_SUPPRESS_NORM_WARN=1 silences this.",
            UserWarning,
            stacklevel=3,
        )


def _check_method(backward: Optional[str]) -> None:
    if backward is not None and backward not in _VALID_METHODS:
        raise ValueError(f"backward is {backward!r}; must be one of {_VALID_METHODS}, or None")


def _check_devices(Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor]) -> None:
    if Q.device != D.device:
        raise ValueError(f"Q is on {Q.device} and D on {D.device}; they must be on one device")
    for name, mask in (("q_mask", q_mask), ("d_mask", d_mask)):
        if mask is not None and mask.device != Q.device:
            raise ValueError(f"{name} is on {mask.device}, but Q and D are on {Q.device}")


def _maxsim_cross(
    Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor], normalize: bool, method: str
) -> Tensor:
    """Returns the scores [Nq, Nd] of every query [Nq, Lq, d] with every document [Nd, Ld, d]. `method` is only checked,
    because there is one backward pass."""
    _check_method(method)
    return padded_scores(Q, D, q_mask, d_mask, normalize=normalize)


def _maxsim_kd(Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor], normalize: bool) -> Tensor:
    """Returns the scores [Nq, K] of each query [Nq, Lq, d] with its own documents [Nq, K, Ld, d]."""
    if Q.dim() != 3:
        raise ValueError(f"documents of [Nq, K, Ld, d] needs Q to be [Nq, Lq, d]; it is {tuple(Q.shape)}")
    num_queries, num_tokens, dim = Q.shape
    if D.shape[0] != num_queries:
        raise ValueError(
            f"documents of [Nq, K, Ld, d] must have D.shape[0] == Q.shape[0]; they are {D.shape[0]}, {num_queries}"
        )
    if D.shape[-1] != dim:
        raise ValueError(f"Q has {dim} columns and D {D.shape[-1]}; must have the same number")
    if q_mask is not None and tuple(q_mask.shape) != (num_queries, num_tokens):
        raise ValueError(f"q_mask must be {(num_queries, num_tokens)}; it is {tuple(q_mask.shape)}")
    if d_mask is not None and d_mask.shape != D.shape[:-1]:
        raise ValueError(f"d_mask must be {tuple(D.shape[:-1])}; it is {tuple(d_mask.shape)}")
    _check_devices(Q, D, q_mask, d_mask)
    return padded_scores(Q, D, q_mask, d_mask, normalize=normalize)


def maxsim(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = False,
    backward: Optional[str] = None,
) -> Tensor:
    """MaxSim scores in float32, with gradients of Q and D.

    | `Q` | `D` | result |
    |---|---|---|
    | [Nq, Lq, d] | [Nd, Ld, d] | [Nq, Nd]: every query with every document |
    | [Nq, Lq, d] | [Nq, K, Ld, d] | [Nq, K]: each query with its own K documents |
    | [Lq, d] or [Ld, d] instead | | without the dimension; a scalar for both |

    `q_mask` and `d_mask` have the shapes of Q and D without the last dimension. Tokens where they are False do not
    count. A document in which no token counts scores 0. `normalize` first divides each token by its length. Q and D are
    float16, bfloat16 or float32; float64 is converted to float32. If their types differ, both are converted to a type
    that holds both. `backward` is "auto", "unified", "lowmem" or None, which all do the same here.

    ValueError: shapes do not fit, the tensors are on two devices, or `backward` has another value. If Q is not
    normalised and `normalize` is False, the first call of a process warns.
    """
    _check_method(backward)
    check_tensors(Q=Q, D=D)
    check_optional_tensors(q_mask=q_mask, d_mask=d_mask)
    if D.dim() == 4:
        return _maxsim_kd(Q, D, q_mask, d_mask, normalize)
    made = batches(Q, D, q_mask, d_mask)
    if Q.shape[-1] != D.shape[-1]:
        raise ValueError(f"Q has {Q.shape[-1]} columns and D {D.shape[-1]}; must have the same number")
    _check_devices(Q, D, q_mask, d_mask)
    if not normalize:
        _maybe_warn_unnormalized(made.Q)
    scores = _maxsim_cross(made.Q, made.D, made.q_mask, made.d_mask, normalize, backward or "auto")
    return made.without(scores)


def maxsim_pairs(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = False,
    backward: Optional[str] = None,
) -> Tensor:
    """Returns the scores [B] of each query [B, Lq, d] with the document [B, Ld, d] of the same index. Masks are [B, Lq]
    and [B, Ld]. Everything else is as in maxsim."""
    if Q.dim() != 3 or D.dim() != 3:
        raise ValueError(f"Q and D of maxsim_pairs must be [B, L, d]; they are {tuple(Q.shape)} and {tuple(D.shape)}")
    if Q.shape[0] != D.shape[0]:
        raise ValueError(f"maxsim_pairs needs Q.shape[0] == D.shape[0]; they are {Q.shape[0]} and {D.shape[0]}")
    d_mask = None if d_mask is None else d_mask.unsqueeze(1)
    return maxsim(Q, D.unsqueeze(1), q_mask, d_mask, normalize=normalize, backward=backward).squeeze(-1)


__all__ = ["maxsim", "maxsim_pairs"]
