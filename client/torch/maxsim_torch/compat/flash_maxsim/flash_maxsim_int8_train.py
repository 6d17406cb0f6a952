"""Scores of a batch with gradients. Until the backward pass, documents are kept as INT8."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ... import library
from ...functions import maxsim_scores
from ...operators import arguments_of, scores_backward
from ...pairing import Pairs
from ...tokens import plain_tokens
from ._arguments import batch, parts
from .flash_maxsim_quant import quantize_int8_symmetric


class _ScoresKeepingInt8(torch.autograd.Function):
    """The forward pass is that of flash_maxsim_batched_train. It keeps the queries, the argmax, and the documents as
    codes and scales. Gradients of documents do not depend on documents, so the rounding to INT8 only affects the
    gradients of queries."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        documents: Tensor,
        shared_docs: bool,
        doc_lengths: Tensor | None,
        query_lengths: Tensor | None,
    ) -> Tensor:
        made, made_documents, doc_lengths, query_lengths = batch(
            queries, documents, shared_docs, doc_lengths, query_lengths
        )
        scores, argmax = maxsim_scores(
            made, made_documents, document_lengths=doc_lengths, query_lengths=query_lengths, return_argmax=True
        )
        codes, scales = quantize_int8_symmetric(documents.flatten(0, -3))
        ctx.save_for_backward(queries, argmax, codes, scales)
        ctx.documents = documents.shape, documents.dtype
        return scores

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, score_gradients: Tensor) -> Any:
        queries, argmax, codes, scales = ctx.saved_tensors
        shape, dtype = ctx.documents
        of_queries, of_documents = ctx.needs_input_grad[:2]
        query_gradients = torch.zeros(queries.shape, dtype=torch.float32, device=queries.device)
        document_gradients = torch.empty(codes.shape, dtype=dtype, device=queries.device) if of_documents else None
        # With shared documents, a part is some of the documents. Otherwise it is some of the queries with their
        # documents.
        shared = len(shape) == 3
        items = shape[0]
        listed = 1 if shared else shape[1]
        row_bytes = codes[:1].numel() * 4 * listed
        for begin, end in parts(items, row_bytes):
            of_part = (slice(None), slice(begin, end)) if shared else (slice(begin, end),)
            rows = slice(begin * listed, end * listed)
            part_queries = queries if shared else queries[begin:end]
            inputs = arguments_of(
                plain_tokens(part_queries.float()),
                plain_tokens(codes[rows].float() * scales[rows].float()),
                None,
                Pairs(None, library.ALL if shared else library.LISTS, end - begin if shared else listed),
            )
            query_part, document_part, _ = scores_backward.differentiate(
                inputs,
                (of_queries, of_documents, False),
                score_gradients[of_part].contiguous(),
                argmax[of_part].contiguous(),
            )
            if of_queries and shared:
                query_gradients += query_part
            elif of_queries:
                query_gradients[begin:end] = query_part
            if document_gradients is not None:
                document_gradients[rows] = document_part
        return (
            query_gradients.to(queries.dtype) if of_queries else None,
            document_gradients.reshape(shape) if document_gradients is not None else None,
            None,
            None,
            None,
        )


def flash_maxsim_int8_batched_train(
    Q: Tensor,
    D: Tensor,
    shared_docs: bool = True,
    doc_lengths: Tensor | None = None,
    query_lengths: Tensor | None = None,
) -> Tensor:
    """Does the same as flash_maxsim_batched_train, but needs half as much memory for float16 documents between the
    forward and the backward pass, because it keeps them as INT8 with a scale per token. Scores and the gradient of D
    are the same. The gradient of Q is computed from the INT8 documents. The backward pass converts 64 MiB of documents
    at a time."""
    scores: Tensor = _ScoresKeepingInt8.apply(  # type: ignore[no-untyped-call]
        Q, D, shared_docs, doc_lengths, query_lengths
    )
    return scores
