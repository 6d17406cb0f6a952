"""Scores padded tensors, in the shapes of late-interaction-kernels, with maxsim_torch.maxsim_scores."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from ...checks import MAX_QUERY_TOKENS
from ...functions import maxsim_scores
from ._utils import pick_compute_dtype

# Tokens shorter than this are divided by it, as in late-interaction-kernels.
_SMALLEST_LENGTH = 1e-6


class _UnitLength(torch.autograd.Function):
    """Divides tokens by their lengths. Lengths and the gradient are computed in float32. For the backward pass it
    keeps the result, which the scores keep anyway, and one length per token."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor) -> Tensor:
        lengths = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=torch.float32)
        lengths = lengths.clamp_min(_SMALLEST_LENGTH)
        unit = torch.div(tokens, lengths, out=torch.empty_like(tokens))
        ctx.save_for_backward(unit, lengths)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        unit, lengths = ctx.saved_tensors
        gradient32, unit32 = gradient.float(), unit.float()
        along = (gradient32 * unit32).sum(-1, keepdim=True)
        result: Tensor = ((gradient32 - along * unit32) / lengths).to(gradient.dtype)
        return result


def unit_length(tokens: Tensor) -> Tensor:
    """Returns `tokens` [..., d], each divided by its length, in the same type. Gradients flow through."""
    result: Tensor = _UnitLength.apply(tokens)  # type: ignore[no-untyped-call]
    return result


def same_type(Q: Tensor, D: Tensor) -> "tuple[Tensor, Tensor]":
    """Returns queries and documents in a type that holds both."""
    dtype = pick_compute_dtype(Q, D)
    return Q.to(dtype), D.to(dtype)


class Batches(NamedTuple):
    """Inputs with batch dimensions, and which of these dimensions the caller's inputs lacked."""

    Q: Tensor
    D: Tensor
    q_mask: Optional[Tensor]
    d_mask: Optional[Tensor]
    one_query: bool
    one_document: bool

    def without(self, scores: Tensor) -> Tensor:
        """Removes from scores [Nq, Nd] the dimensions that the caller's inputs lacked."""
        if self.one_query and self.one_document:
            return scores.reshape(())
        if self.one_query:
            return scores.squeeze(0)
        return scores.squeeze(-1) if self.one_document else scores


def batches(Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor]) -> Batches:
    """Gives one query [Lq, d], one document [Ld, d] and masks of one dimension a batch of one."""
    one_query, one_document = Q.dim() == 2, D.dim() == 2
    return Batches(
        Q.unsqueeze(0) if one_query else Q,
        D.unsqueeze(0) if one_document else D,
        q_mask.unsqueeze(0) if q_mask is not None and q_mask.dim() == 1 else q_mask,
        d_mask.unsqueeze(0) if d_mask is not None and d_mask.dim() == 1 else d_mask,
        one_query,
        one_document,
    )


def _expanded(name: str, mask: Optional[Tensor], tokens: Tensor) -> Optional[Tensor]:
    if mask is None:
        return None
    try:
        return mask.expand(tokens.shape[:-1])
    except RuntimeError:
        shapes = f"{tuple(mask.shape)}; must be {tuple(tokens.shape[:-1])}"
        raise ValueError(f"{name} has shape {shapes}") from None


def padded_scores(
    Q: Tensor,
    D: Tensor,
    q_mask: Optional[Tensor],
    d_mask: Optional[Tensor],
    *,
    normalize: bool,
) -> Tensor:
    """Scores in float32: [Nq, Nd] of documents [Nd, Ld, d], [Nq, K] of documents [Nq, K, Ld, d]. An empty document
    scores 0. A query of more than 4,096 tokens is scored in parts, whose sum is its score."""
    Q, D = same_type(Q, D)
    if normalize:
        Q, D = unit_length(Q), unit_length(D)
    q_mask, d_mask = _expanded("q_mask", q_mask, Q), _expanded("d_mask", d_mask, D)
    scores: Optional[Tensor] = None
    for begin in range(0, max(Q.shape[1], 1), MAX_QUERY_TOKENS):
        part = slice(begin, begin + MAX_QUERY_TOKENS)
        of_part = maxsim_scores(
            Q[:, part],
            D,
            query_mask=None if q_mask is None else q_mask[:, part],
            document_mask=d_mask,
            empty_score=0.0,
        )
        scores = of_part if scores is None else scores + of_part
    assert scores is not None
    return scores
