"""The functions for Apple's GPUs. maxsim_torch has no kernels for these, so the plain PyTorch of `reference` scores
tensors there. The operators score tensors on other devices."""

from typing import Optional

import torch
from torch import Tensor

from ..autograd import maxsim
from ..reference import maxsim_reference


def maxsim_mps(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = True,
) -> Tensor:
    """Does what maxsim does, with `normalize` True by default. On a device of type "mps", documents are [Nd, Ld, d] or
    [Ld, d], and the whole matrix of similarities is written."""
    if Q.device.type == "mps":
        return maxsim_reference(Q, D, q_mask, d_mask, normalize=normalize)
    return maxsim(Q, D, q_mask, d_mask, normalize=normalize)


def maxsim_inference_mps(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = True,
) -> Tensor:
    """maxsim_mps without gradients."""
    with torch.no_grad():
        return maxsim_mps(Q, D, q_mask, d_mask, normalize=normalize)


__all__ = ["maxsim_inference_mps", "maxsim_mps"]
