"""MaxSimScorer, a module that scores, and the function retrieve. By default both divide tokens by their lengths."""

import contextlib
from typing import Optional

import torch
from torch import Tensor

from .autograd import _VALID_METHODS, maxsim
from .reference import maxsim_reference
from .topk import maxsim_topk


def _check_one_device(Q: Tensor, D: Tensor) -> None:
    if Q.device != D.device:
        raise ValueError(f"Q is on {Q.device} and D on {D.device}; must be on one device")


def _score(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor],
    d_mask: Optional[Tensor],
    *,
    normalize: bool,
    backward: str,
    inference: bool,
) -> Tensor:
    """Returns the scores as maxsim does. For float64 on the CPU, and on devices other than CPU and CUDA, uses
    maxsim_reference, which is plain PyTorch."""
    _check_one_device(Q, D)
    with torch.no_grad() if inference else contextlib.nullcontext():
        double = Q.device.type == "cpu" and torch.float64 in (Q.dtype, D.dtype)
        if Q.device.type in ("cpu", "cuda") and not double:
            return maxsim(Q, D, q_mask, d_mask, normalize=normalize, backward=backward)
        return maxsim_reference(Q, D, q_mask, d_mask, normalize=normalize)


class MaxSimScorer(torch.nn.Module):
    """A module that scores. It has no parameters and no state.

    `normalize` divides each token by its length. `backward` is "auto", "unified" or "lowmem", which all do the same
    here. `mask_pad_token` is the id of the padding token, for forward_with_ids. ValueError: `backward` has another
    value.
    """

    def __init__(
        self,
        *,
        normalize: bool = True,
        backward: str = "auto",
        mask_pad_token: Optional[int] = None,
    ) -> None:
        super().__init__()
        if backward not in _VALID_METHODS:
            raise ValueError(f"backward is {backward!r}; must be one of {_VALID_METHODS}")
        self.normalize = normalize
        self.backward = backward
        self.mask_pad_token = mask_pad_token

    def extra_repr(self) -> str:
        return f"normalize={self.normalize}, backward={self.backward!r}, mask_pad_token={self.mask_pad_token!r}"

    def forward(self, Q: Tensor, D: Tensor, q_mask: Optional[Tensor] = None, d_mask: Optional[Tensor] = None) -> Tensor:
        """Scores as maxsim has them, with gradients."""
        return _score(Q, D, q_mask, d_mask, normalize=self.normalize, backward=self.backward, inference=False)

    def score(self, Q: Tensor, D: Tensor, q_mask: Optional[Tensor] = None, d_mask: Optional[Tensor] = None) -> Tensor:
        """Scores as maxsim has them, without gradients."""
        return _score(Q, D, q_mask, d_mask, normalize=self.normalize, backward=self.backward, inference=True)

    def retrieve(
        self,
        Q: Tensor,
        D: Tensor,
        top_k: int,
        q_mask: Optional[Tensor] = None,
        d_mask: Optional[Tensor] = None,
        *,
        chunk: Optional[int] = None,
    ) -> "tuple[Tensor, Tensor]":
        """Returns scores and indices of the best documents, as the function retrieve does with this scorer's
        `normalize`."""
        return retrieve(Q, D, top_k, q_mask, d_mask, normalize=self.normalize, chunk=chunk)

    def forward_with_ids(self, Q: Tensor, D: Tensor, q_ids: Tensor, d_ids: Tensor) -> Tensor:
        """Calls forward with masks of the tokens whose ids are not `mask_pad_token`. ValueError: that is None."""
        if self.mask_pad_token is None:
            raise ValueError("forward_with_ids needs the id of padding, but mask_pad_token is None")
        result: Tensor = self(Q, D, q_mask=q_ids != self.mask_pad_token, d_mask=d_ids != self.mask_pad_token)
        return result


def retrieve(
    Q: Tensor,
    D: Tensor,
    top_k: int,
    q_mask: Optional[Tensor] = None,
    d_mask: Optional[Tensor] = None,
    *,
    normalize: bool = True,
    chunk: Optional[int] = None,
    largest: bool = True,
    sorted: bool = True,
) -> "tuple[Tensor, Tensor]":
    """Returns scores and indices [Nq, min(top_k, Nd)] of the best documents of each query, without gradients. Scores
    `chunk` documents at a time. See maxsim_topk for the order of equal scores. ValueError: top_k is not positive, or
    the tensors are on two devices."""
    if top_k <= 0:
        raise ValueError(f"top_k must be positive; it is {top_k}")
    _check_one_device(Q, D)
    return maxsim_topk(
        Q,
        D,
        top_k,
        q_mask,
        d_mask,
        normalize=normalize,
        chunk_size=chunk,
        largest=largest,
        sorted=sorted,
    )


__all__ = ["MaxSimScorer", "retrieve"]
