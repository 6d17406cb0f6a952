"""The operators that PyTorch knows: torch.ops.maxsim_torch.scores and scores_backward.

They take every layout, so that there is one of each. functions.py has what people call. An operator's Python runs when
it is executed; torch.compile and export see the fake implementations alone, so that they do not break the graph.
"""

import ctypes
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import INDEX_TYPES, TYPES, CallMemory
from .direct_calls import operator

_TYPES = {**TYPES, torch.int8: library.I8}
_TOKENS_SIZE = ctypes.sizeof(library.Tokens)
# The address of lists without a candidate, which is never read. 0 would say that there are no lists.
_NO_CANDIDATES = 8


class Call(CallMemory):
    """A maxsim_call over tensors, which it keeps until the call has returned."""

    def __init__(self, pairing: int, list_length: int, empty_score: float, device: torch.device):
        super().__init__(library.Call, device)
        self.call.pairing = pairing
        self.call.list_length = list_length
        self.call.empty_score = empty_score

    def tokens(
        self,
        rows: Tensor,
        offsets: Optional[Tensor],
        lengths: Optional[Tensor],
        mask: Optional[Tensor],
        scales: Optional[Tensor],
        scale_of: int,
        num_sequences: int,
        max_tokens: int,
    ) -> int:
        """The address of a maxsim_tokens, which is kept, too."""
        if offsets is None:
            layout, indices = library.PADDED, lengths
        else:
            layout, indices = library.PACKED if lengths is None else library.SCATTERED, offsets
        dim = rows.shape[-1]
        tokens = library.Tokens(
            _TOKENS_SIZE,
            layout,
            _TYPES[rows.dtype],
            dim,
            INDEX_TYPES[indices.dtype] if indices is not None else library.INT64,
            num_sequences,
            max_tokens,
            rows.numel() // max(dim, 1),
            self.address(rows),
            self.address(offsets),
            self.address(lengths),
            self.address(mask),
            self.address(scales),
            scale_of,
        )
        return self.address_of(tokens)

    def take_candidates(self, candidates: Optional[Tensor]) -> None:
        self.call.candidates = self.address(candidates)
        if candidates is not None and candidates.numel() == 0:
            self.call.candidates = _NO_CANDIDATES


def _make_call(
    queries: Tensor,
    documents: Tensor,
    weights: Optional[Tensor],
    query_offsets: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    query_scales: Optional[Tensor],
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    document_scales: Optional[Tensor],
    candidates: Optional[Tensor],
    num_queries: int,
    num_documents: int,
    max_query_tokens: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    empty_score: float,
    query_scale_of: int = library.SCALE_A_SEQUENCE,
    document_scale_of: int = library.SCALE_A_SEQUENCE,
) -> Call:
    made = Call(pairing, list_length, empty_score, queries.device)
    made.call.queries = made.tokens(
        queries,
        query_offsets,
        query_lengths,
        query_mask,
        query_scales,
        query_scale_of,
        num_queries,
        max_query_tokens,
    )
    made.call.documents = made.tokens(
        documents,
        document_offsets,
        document_lengths,
        document_mask,
        document_scales,
        document_scale_of,
        num_documents,
        max_document_tokens,
    )
    made.call.weights = made.address(weights)
    made.take_candidates(candidates)
    return made


def empty_results(
    queries: Tensor, num_queries: int, list_length: int, max_query_tokens: int, with_argmax: bool
) -> Tuple[Tensor, Tensor]:
    """Memory for what `scores` returns."""
    shape = (num_queries, list_length, max_query_tokens) if with_argmax else (0,)
    return (
        queries.new_empty((num_queries, list_length), dtype=torch.float32),
        queries.new_empty(shape, dtype=torch.int32),
    )


def _empty_gradients(
    queries: Tensor,
    documents: Tensor,
    weights: Optional[Tensor],
    of_queries: bool,
    of_documents: bool,
    of_weights: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Memory for what `scores_backward` returns."""
    weight_shape = weights.shape if weights is not None and of_weights else (0,)
    return (
        queries.new_empty(queries.shape if of_queries else (0,)),
        documents.new_empty(documents.shape if of_documents else (0,)),
        queries.new_empty(weight_shape, dtype=torch.float32),
    )


@operator("scores")
def scores(
    queries: Tensor,
    documents: Tensor,
    weights: Optional[Tensor],
    query_offsets: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    query_scales: Optional[Tensor],
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    document_scales: Optional[Tensor],
    candidates: Optional[Tensor],
    num_queries: int,
    num_documents: int,
    max_query_tokens: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    empty_score: float,
    query_scale_of: int,
    document_scale_of: int,
    with_argmax: bool,
) -> Tuple[Tensor, Tensor]:
    """maxsim_forward: scores [num_queries, list_length] in float32, and with_argmax the matches [num_queries,
    list_length, max_query_tokens] in int32, which are empty otherwise. `list_length` is the documents of each query:
    with pairing ALL all of them, with PAIRS one. Rows are the last dimension of `queries` and `documents`. Scales are
    vectors; `query_scale_of` and `document_scale_of` (SCALE_A_SEQUENCE, SCALE_A_TOKEN) say what each belongs to."""
    result, argmax = empty_results(queries, num_queries, list_length, max_query_tokens, with_argmax)
    made = _make_call(
        queries,
        documents,
        weights,
        query_offsets,
        query_mask,
        query_lengths,
        query_scales,
        document_offsets,
        document_mask,
        document_lengths,
        document_scales,
        candidates,
        num_queries,
        num_documents,
        max_query_tokens,
        max_document_tokens,
        pairing,
        list_length,
        empty_score,
        query_scale_of,
        document_scale_of,
    )
    made.compute(
        library.forward,
        result.data_ptr(),
        argmax.data_ptr() if with_argmax else 0,
        bytes_of=lambda call: library.workspace_bytes(call, library.FORWARD),
    )
    return result, argmax


@scores.register_fake
def _scores_fake(  # type: ignore[no-untyped-def]
    queries,
    documents,
    weights,
    query_offsets,
    query_mask,
    query_lengths,
    query_scales,
    document_offsets,
    document_mask,
    document_lengths,
    document_scales,
    candidates,
    num_queries,
    num_documents,
    max_query_tokens,
    max_document_tokens,
    pairing,
    list_length,
    empty_score,
    query_scale_of,
    document_scale_of,
    with_argmax,
):
    return empty_results(queries, num_queries, list_length, max_query_tokens, with_argmax)


@operator("scores_backward")
def scores_backward(
    score_gradients: Tensor,
    argmax: Tensor,
    queries: Tensor,
    documents: Tensor,
    weights: Optional[Tensor],
    query_offsets: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    num_queries: int,
    num_documents: int,
    max_query_tokens: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    of_queries: bool,
    of_documents: bool,
    of_weights: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """maxsim_backward: the gradients of queries, documents and weights in their types and shapes. Those that are not
    asked for are empty."""
    made = _make_call(
        queries,
        documents,
        weights,
        query_offsets,
        query_mask,
        query_lengths,
        None,
        document_offsets,
        document_mask,
        document_lengths,
        None,
        candidates,
        num_queries,
        num_documents,
        max_query_tokens,
        max_document_tokens,
        pairing,
        list_length,
        0.0,
    )
    results = _empty_gradients(queries, documents, weights, of_queries, of_documents, of_weights)
    gradients = library.Gradients(
        ctypes.sizeof(library.Gradients),
        made.address(argmax),
        made.address(score_gradients),
        results[0].data_ptr() if of_queries else None,
        results[1].data_ptr() if of_documents else None,
        results[2].data_ptr() if of_weights else None,
    )
    made.compute(
        library.backward,
        gradients,
        bytes_of=lambda call: library.workspace_bytes(call, library.BACKWARD) if of_documents else 0,
    )
    return results


@scores_backward.register_fake
def _scores_backward_fake(  # type: ignore[no-untyped-def]
    score_gradients,
    argmax,
    queries,
    documents,
    weights,
    query_offsets,
    query_mask,
    query_lengths,
    document_offsets,
    document_mask,
    document_lengths,
    candidates,
    num_queries,
    num_documents,
    max_query_tokens,
    max_document_tokens,
    pairing,
    list_length,
    of_queries,
    of_documents,
    of_weights,
):
    return _empty_gradients(queries, documents, weights, of_queries, of_documents, of_weights)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    queries, documents, weights, query_offsets, query_mask, query_lengths = inputs[:6]
    document_offsets, document_mask, document_lengths = inputs[7:10]
    candidates = inputs[11]
    with_argmax = inputs[21]
    if not with_argmax:
        return
    ctx.save_for_backward(
        output[1],
        queries,
        documents,
        weights,
        query_offsets,
        query_mask,
        query_lengths,
        document_offsets,
        document_mask,
        document_lengths,
        candidates,
    )
    ctx.numbers = inputs[12:18]


def _differentiate(ctx: Any, score_gradients: Tensor, _: Any) -> Any:
    if not hasattr(ctx, "numbers"):
        raise RuntimeError("maxsim_torch::scores was called without with_argmax, and has no gradients")
    of_queries, of_documents, of_weights = ctx.needs_input_grad[:3]
    gradients = scores_backward(
        score_gradients, *ctx.saved_tensors, *ctx.numbers, of_queries, of_documents, of_weights
    )
    wanted = (of_queries, of_documents, of_weights)
    return (*(gradient if asked else None for gradient, asked in zip(gradients, wanted)), *(None,) * 19)


scores.register_autograd(_differentiate, setup_context=_save)
