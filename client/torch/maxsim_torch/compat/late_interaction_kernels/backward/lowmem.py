"""Gradients of maxsim in the inputs' types, without wider copies of them."""

from typing import Optional

from torch import Tensor

from ._gradients import gradients


def maxsim_backward_lowmem(
    grad_scores: Tensor,
    Q: Tensor,
    D: Tensor,
    argmax: Tensor,
    q_mask: Optional[Tensor] = None,
    *,
    kd_layout: bool = False,
) -> "tuple[Tensor, Tensor]":
    """Returns the gradients of Q [Nq, Lq, d] and D, in their types. D is [Nd, Ld, d] or, with `kd_layout`, [Nq * K, Ld,
    d].

    `grad_scores` is [Nq, documents of each query], `argmax` [Nq * documents, Lq] are the matches of
    forward.maxsim_forward, and `q_mask` is [Nq, Lq]. Sums are in float32 and in a fixed order. Raises RuntimeError for
    tensors that are not on a GPU, as late-interaction-kernels does. The gradients of maxsim itself also work on the
    CPU.
    """
    if not (Q.is_cuda and D.is_cuda):
        raise RuntimeError(f"maxsim_backward_lowmem requires CUDA tensors; Q is on {Q.device} and D on {D.device}")
    return gradients(grad_scores, Q, D, argmax, q_mask, kd_layout)
