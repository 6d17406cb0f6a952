"""The backward pass alone, for a caller who has the matches of the scores."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import library
from ...operators import arguments_of, scores_backward
from ...pairing import Pairs
from ...tokens import padded, plain_tokens
from ._arguments import alike, require, require_dims


@torch.no_grad()
def torch_backward(
    Q: Tensor, D: Tensor, argmax: Tensor, grad_scores: Tensor, shared_docs: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of Q [Nq, Lq, d] and D, in their shapes and types, for grad_scores [Nq, B]. D is [B, Ld, d]
    with shared_docs, and otherwise [Nq, B, Ld, d] or [Nq * B, Ld, d]. `argmax` [Nq * B, Lq] has one row per pair. The
    row's index is document * Nq + query with shared_docs, and query * B + document otherwise. -1 means no match."""
    require_dims("Q", Q, "[Nq, Lq, d]")
    num_queries, query_tokens, dim = Q.shape
    num_listed = grad_scores.shape[-1]
    require(
        tuple(grad_scores.shape) == (num_queries, num_listed),
        f"grad_scores has shape {tuple(grad_scores.shape)}; must be [{num_queries}, B]",
    )
    outer = (num_listed,) if shared_docs else (num_queries, num_listed)
    documents = D if shared_docs or D.dim() == 4 else D.reshape(*outer, *D.shape[1:])
    require(
        documents.dim() == len(outer) + 2 and tuple(documents.shape[: len(outer)]) == outer and D.shape[-1] == dim,
        f"D has shape {tuple(D.shape)}; must be [*{outer}, Ld, {dim}]",
    )
    require(
        argmax.numel() == num_queries * num_listed * query_tokens,
        f"argmax has shape {tuple(argmax.shape)}; must be {(num_queries * num_listed, query_tokens)}",
    )
    if shared_docs:
        argmax = argmax.reshape(num_listed, num_queries, query_tokens).transpose(0, 1)
    queries, documents = alike(Q, documents)
    inputs = arguments_of(
        plain_tokens(queries),
        padded("document", documents, None, None, None),
        None,
        Pairs(None, library.ALL if shared_docs else library.LISTS, num_listed),
    )
    gradients = scores_backward.differentiate(
        inputs,
        (True, True, False),
        grad_scores.float().contiguous(),
        argmax.reshape(num_queries, num_listed, query_tokens).to(torch.int32).contiguous(),
    )
    return gradients[0].to(Q.dtype), gradients[1].to(D.dtype).reshape(D.shape)


def torch_backward_tiled(
    Q: Tensor, D: Tensor, argmax: Tensor, grad_scores: Tensor, shared_docs: bool = True, b_tile: int = 128
) -> tuple[Tensor, Tensor]:
    """torch_backward. `b_tile` changes nothing."""
    return torch_backward(Q, D, argmax, grad_scores, shared_docs)
