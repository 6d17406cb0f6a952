"""Scores documents that are hidden states before a model's last layer."""

from typing import Optional

from torch import Tensor

from ...head_scores import fused_head_scores
from ._scoring import same_type


def maxsim_from_hidden(
    Q: Tensor,
    H_d: Tensor,
    W: Tensor,
    b: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    normalize: bool = True,
) -> Tensor:
    """Returns scores [Nq, Nd] in float32, or [Nd] for one query, with gradients of Q, H_d, W and b:

        maxsim(Q, normalize(linear(H_d, W, b)), d_mask=d_mask)

    The vectors of all documents never exist at the same time (maxsim_torch.fused_head_scores). Q are finished vectors
    [Nq, Lq, d_out] or [Lq, d_out]. H_d is [Nd, Ld, d_model], W [d_out, d_model], b [d_out], d_mask [Nd, Ld]. A document
    in which no token counts scores 0. ValueError: shapes do not fit, or the tensors are on two devices.
    """
    if Q.dim() not in (2, 3):
        raise ValueError(f"Q must be [Lq, d_out] or [Nq, Lq, d_out]; it is {tuple(Q.shape)}")
    if H_d.dim() != 3:
        raise ValueError(f"H_d must be [Nd, Ld, d_model]; it is {tuple(H_d.shape)}")
    wanted = (Q.shape[-1], H_d.shape[-1])
    if tuple(W.shape) != wanted:
        raise ValueError(f"W must be {wanted}, [d_out, d_model]; it is {tuple(W.shape)}")
    if Q.device != H_d.device or W.device != Q.device:
        raise ValueError(f"Q, H_d and W must be on one device; they are on {Q.device}, {H_d.device} and {W.device}")
    if b is not None and tuple(b.shape) != wanted[:1]:
        raise ValueError(f"b must be {wanted[:1]}; it is {tuple(b.shape)}")
    Q, H_d = same_type(Q, H_d)
    mask = None if d_mask is None else d_mask.expand(H_d.shape[:2])
    scores = fused_head_scores(Q, H_d, W, b, normalize=normalize, document_mask=mask, empty_score=0.0)
    assert isinstance(scores, Tensor)
    return scores


__all__ = ["maxsim_from_hidden"]
