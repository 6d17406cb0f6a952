"""A step of contrastive training in one call: loss and gradients, without a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import batched_scores, require, require_forms


def _check(queries: Tensor, documents: Tensor, labels: Tensor | None) -> None:
    require_forms(Q=(queries, "[Nq, Lq, d]"), D=(documents, "[Nd, Ld, d]"))
    require(queries.device == documents.device, f"Q is on {queries.device}, but D on {documents.device}")
    require(queries.dtype == documents.dtype, f"Q is {queries.dtype}, but D is {documents.dtype}; must be the same")
    if labels is None:
        require(
            documents.shape[0] >= queries.shape[0],
            f"there are {queries.shape[0]} queries and {documents.shape[0]} documents; without labels document i is "
            f"that of query i",
        )
        return
    require(
        tuple(labels.shape) == (queries.shape[0],) and labels.dtype == torch.int64,
        f"labels are {labels.dtype} {tuple(labels.shape)}; must be torch.int64 {(queries.shape[0],)}",
    )


def colbert_contrastive_step(Q: Tensor, D: Tensor, labels: Tensor | None = None) -> Tensor:
    """Returns the mean cross entropy of the scores [Nq, Nd] of Q [Nq, Lq, d] with D [Nd, Ld, d], in float32 and without
    a graph. `labels` [Nq] in int64 are the right document of each query; None means document i for query i. Adds the
    gradients to Q.grad and D.grad, in their types, or creates these if they are None."""
    _check(Q, D, labels)
    queries, documents = Q.detach().requires_grad_(), D.detach().requires_grad_()
    if labels is None:
        labels = torch.arange(Q.shape[0], device=Q.device)
    with torch.enable_grad():
        scores = batched_scores(queries, documents, True, None, None)
        loss = torch.nn.functional.cross_entropy(scores, labels)
    query_gradient, document_gradient = torch.autograd.grad(loss, (queries, documents))
    with torch.no_grad():
        for tensor, gradient in ((Q, query_gradient), (D, document_gradient)):
            if tensor.grad is None:
                tensor.grad = gradient
            else:
                tensor.grad += gradient
    return loss.detach()
