"""The operators that PyTorch knows: torch.ops.maxsim_torch.scores and scores_backward.

Each takes every layout, so one operator of each kind suffices. functions.py has the public functions. An operator's
Python runs when the operator is executed. torch.compile and export see only the fake implementations, so the
operators do not break the graph.
"""

import ctypes
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import INDEX_TYPES, TYPES, CallMemory
from .direct_calls import operator
from .pairing import Pairs
from .tokens import Tokens

_TYPES = {**TYPES, torch.int8: library.I8}
_TOKENS_SIZE = ctypes.sizeof(library.Tokens)
# The address that stands for empty lists of candidates. It is never read. 0 would mean that there are no lists.
_NO_CANDIDATES = 8


class Scores(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.scores: queries and documents (Tokens), Pairs and numbers.

    arguments_of and _call run in every call. They take the arguments by position, because names would take longer."""

    queries: Tensor
    documents: Tensor
    weights: Optional[Tensor]
    query_offsets: Optional[Tensor]
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    query_scales: Optional[Tensor]
    document_offsets: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    document_scales: Optional[Tensor]
    candidates: Optional[Tensor]
    num_queries: int
    num_documents: int
    max_query_tokens: int
    max_document_tokens: int
    pairing: int
    list_length: int
    empty_score: float
    query_scale_of: int
    document_scale_of: int
    with_argmax: bool


def arguments_of(
    queries: Tokens,
    documents: Tokens,
    weights: Optional[Tensor],
    pairs: Pairs,
    empty_score: float = 0.0,
    with_argmax: bool = False,
) -> "Tuple[Any, ...]":
    """Returns the arguments of `scores` in the order of Scores."""
    rows, offsets, mask, lengths, scales, scale_of, num_queries, max_query_tokens = queries
    (
        vectors,
        document_offsets,
        document_mask,
        document_lengths,
        document_scales,
        document_scale_of,
        num_documents,
        max_document_tokens,
    ) = documents
    candidates, pairing, list_length, _ = pairs
    return (
        rows,
        vectors,
        weights,
        offsets,
        mask,
        lengths,
        scales,
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
        scale_of,
        document_scale_of,
        with_argmax,
    )


class Call(CallMemory):
    """A maxsim_call over tensors, which are kept alive until the call has returned. The method `tokens` adds queries
    and documents."""

    def __init__(
        self,
        device: torch.device,
        weights: Optional[Tensor],
        candidates: Optional[Tensor],
        pairing: int,
        list_length: int,
        empty_score: float,
    ):
        super().__init__(library.Call, device)
        call = self.call
        call.pairing = pairing
        call.list_length = list_length
        call.empty_score = empty_score
        if weights is not None:
            call.weights = self.address(weights)
        if candidates is not None:
            call.candidates = self.address(candidates) if candidates.numel() > 0 else _NO_CANDIDATES

    def tokens(
        self,
        rows: Tensor,
        offsets: Optional[Tensor],
        mask: Optional[Tensor],
        lengths: Optional[Tensor],
        scales: Optional[Tensor],
        scale_of: int,
        num_sequences: int,
        max_tokens: int,
        vectors: Optional[Tensor] = None,
    ) -> int:
        """Returns the address of a maxsim_tokens, which is also kept until the call has returned. The arguments are
        those of Tokens. For residual codes, `rows` have one number per token; their vectors have the type and columns
        of `vectors`, and their address stays empty here."""
        if offsets is None:
            layout, indices = library.PADDED, lengths
        else:
            layout, indices = library.PACKED if lengths is None else library.SCATTERED, offsets
        if vectors is None:
            dim, dtype = rows.shape[-1], rows.dtype
            num_rows, address = rows.numel() // max(dim, 1), self.address(rows)
        else:
            dim, dtype = vectors.shape[-1], vectors.dtype
            num_rows, address = rows.numel(), None
        made = library.Tokens(
            _TOKENS_SIZE,
            layout,
            _TYPES[dtype],
            dim,
            library.INT64 if indices is None else INDEX_TYPES[indices.dtype],
            num_sequences,
            max_tokens,
            num_rows,
            address,
            None if offsets is None else self.address(offsets),
            None if lengths is None else self.address(lengths),
            None if mask is None else self.address(mask),
            None if scales is None else self.address(scales),
            scale_of,
        )
        return self.address_of(made)


def _call(inputs: Scores) -> Call:
    (
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
        _,
    ) = inputs
    made = Call(queries.device, weights, candidates, pairing, list_length, empty_score)
    made.call.queries = made.tokens(
        queries,
        query_offsets,
        query_mask,
        query_lengths,
        query_scales,
        query_scale_of,
        num_queries,
        max_query_tokens,
    )
    made.call.documents = made.tokens(
        documents,
        document_offsets,
        document_mask,
        document_lengths,
        document_scales,
        document_scale_of,
        num_documents,
        max_document_tokens,
    )
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


def empty_results_of(inputs: Any) -> Tuple[Tensor, Tensor]:
    """Does the same as empty_results for operators whose queries are padded."""
    num_queries, max_query_tokens = inputs.queries.shape[:2]
    return empty_results(inputs.queries, num_queries, inputs.list_length, max_query_tokens, inputs.with_argmax)


def _empty_scores(inputs: Scores) -> Tuple[Tensor, Tensor]:
    return empty_results(
        inputs.queries, inputs.num_queries, inputs.list_length, inputs.max_query_tokens, inputs.with_argmax
    )


@operator("scores", _empty_scores)
def scores(inputs: Scores) -> Tuple[Tensor, Tensor]:
    """Calls maxsim_forward. Returns the scores [num_queries, list_length] in float32 and, with_argmax, the matches
    [num_queries, list_length, max_query_tokens] in int32, otherwise empty ones. `list_length` is the number of
    documents per query: all documents with pairing ALL, one with PAIRS. Rows are the last dimension of `queries` and
    `documents`. Scales are vectors; `query_scale_of` and `document_scale_of` say whether there is one per sequence
    (SCALE_PER_SEQUENCE) or per token (SCALE_PER_TOKEN)."""
    results = _empty_scores(inputs)
    _call(inputs).forward(library.MAXSIM, results)
    return results


@scores.gradients(
    of=("queries", "documents", "weights"),
    without={
        "query_scales": None,
        "document_scales": None,
        "empty_score": 0.0,
        "query_scale_of": library.SCALE_PER_SEQUENCE,
        "document_scale_of": library.SCALE_PER_SEQUENCE,
        "with_argmax": True,
    },
)
def scores_backward(
    inputs: Scores, asked: Sequence[bool], score_gradients: Tensor, argmax: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Calls maxsim_backward. Returns the gradients of queries, documents and weights in their types and shapes."""
    queries, documents, weights = inputs[:3]
    of_queries, of_documents, of_weights = asked
    results = (
        queries.new_empty(queries.shape if of_queries else (0,)),
        documents.new_empty(documents.shape if of_documents else (0,)),
        queries.new_empty(weights.shape if weights is not None and of_weights else (0,), dtype=torch.float32),
    )
    _call(inputs).backward(library.MAXSIM, (argmax, score_gradients), results, with_workspace=of_documents)
    return results
