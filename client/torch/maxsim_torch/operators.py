"""The operators that PyTorch knows: torch.ops.maxsim_torch.scores and scores_backward.

They take every layout, so that there is one of each. functions.py has what people call. An operator's Python runs when
it is executed; torch.compile and export see the fake implementations alone, so that they do not break the graph.
"""

import ctypes
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import INDEX_TYPES, TYPES, CallMemory
from .direct_calls import empty_gradients, operator
from .pairing import Pairs
from .tokens import Tokens

_TYPES = {**TYPES, torch.int8: library.I8}
_TOKENS_SIZE = ctypes.sizeof(library.Tokens)
# The address of lists without a candidate, which is never read. 0 would say that there are no lists.
_NO_CANDIDATES = 8


class Scores(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.scores: queries and documents (Tokens), Pairs and numbers."""

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
) -> Scores:
    """Returns the arguments of the operator `scores`, with the members of tokens and pairs one by one."""
    return Scores(
        queries.rows,
        documents.rows,
        weights,
        queries.offsets,
        queries.mask,
        queries.lengths,
        queries.scales,
        documents.offsets,
        documents.mask,
        documents.lengths,
        documents.scales,
        pairs.candidates,
        queries.num_sequences,
        documents.num_sequences,
        queries.max_tokens,
        documents.max_tokens,
        pairs.pairing,
        pairs.list_length,
        empty_score,
        queries.scale_of,
        documents.scale_of,
        with_argmax,
    )


class Call(CallMemory):
    """A maxsim_call over the tensors of `inputs`, which are Scores or have their names, and of queries and documents.
    It keeps them until the call has returned. Documents of residual codes, `coded`, have no rows of vectors: their rows
    are the codes, one a token."""

    def __init__(self, inputs: Any, queries: Tokens, documents: Tokens, coded: bool = False):
        super().__init__(library.Call, queries.rows.device)
        rows = queries.rows
        self.call.pairing = inputs.pairing
        self.call.list_length = inputs.list_length
        self.call.empty_score = inputs.empty_score
        self.call.queries = self._tokens(queries, rows.dtype, rows.shape[-1], rows)
        vectors = None if coded else documents.rows
        of_vectors = rows if coded else documents.rows
        self.call.documents = self._tokens(documents, of_vectors.dtype, of_vectors.shape[-1], vectors)
        self.call.weights = self.address(inputs.weights)
        candidates = inputs.candidates
        self.call.candidates = self.address(candidates)
        if candidates is not None and candidates.numel() == 0:
            self.call.candidates = _NO_CANDIDATES

    def _tokens(self, tokens: Tokens, dtype: torch.dtype, dim: int, vectors: Optional[Tensor]) -> int:
        """The address of a maxsim_tokens, which is kept, too."""
        rows, offsets, mask, lengths, scales, scale_of, num_sequences, max_tokens = tokens
        if offsets is None:
            layout, indices = library.PADDED, lengths
        else:
            layout, indices = library.PACKED if lengths is None else library.SCATTERED, offsets
        made = library.Tokens(
            _TOKENS_SIZE,
            layout,
            _TYPES[dtype],
            dim,
            INDEX_TYPES[indices.dtype] if indices is not None else library.INT64,
            num_sequences,
            max_tokens,
            rows.numel() if vectors is None else rows.numel() // max(dim, 1),
            self.address(vectors),
            self.address(offsets),
            self.address(lengths),
            self.address(mask),
            self.address(scales),
            scale_of,
        )
        return self.address_of(made)


def _call(inputs: Scores) -> Call:
    queries = Tokens(
        inputs.queries,
        inputs.query_offsets,
        inputs.query_mask,
        inputs.query_lengths,
        inputs.query_scales,
        inputs.query_scale_of,
        inputs.num_queries,
        inputs.max_query_tokens,
    )
    documents = Tokens(
        inputs.documents,
        inputs.document_offsets,
        inputs.document_mask,
        inputs.document_lengths,
        inputs.document_scales,
        inputs.document_scale_of,
        inputs.num_documents,
        inputs.max_document_tokens,
    )
    return Call(inputs, queries, documents)


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
    """empty_results for operators whose queries are padded."""
    num_queries, max_query_tokens = inputs.queries.shape[:2]
    return empty_results(inputs.queries, num_queries, inputs.list_length, max_query_tokens, inputs.with_argmax)


def _empty_scores(inputs: Scores) -> Tuple[Tensor, Tensor]:
    return empty_results(
        inputs.queries, inputs.num_queries, inputs.list_length, inputs.max_query_tokens, inputs.with_argmax
    )


@operator("scores", _empty_scores)
def scores(inputs: Scores) -> Tuple[Tensor, Tensor]:
    """maxsim_forward: scores [num_queries, list_length] in float32, and with_argmax the matches [num_queries,
    list_length, max_query_tokens] in int32, which are empty otherwise. `list_length` is the documents of each query:
    with pairing ALL all of them, with PAIRS one. Rows are the last dimension of `queries` and `documents`. Scales are
    vectors; `query_scale_of` and `document_scale_of` (SCALE_A_SEQUENCE, SCALE_A_TOKEN) say what each belongs to."""
    results = _empty_scores(inputs)
    _call(inputs).forward(library.MAXSIM, results)
    return results


@scores.gradients(
    of=("queries", "documents", "weights"),
    without={
        "query_scales": None,
        "document_scales": None,
        "empty_score": 0.0,
        "query_scale_of": library.SCALE_A_SEQUENCE,
        "document_scale_of": library.SCALE_A_SEQUENCE,
        "with_argmax": True,
    },
)
def scores_backward(
    inputs: Scores, asked: Sequence[bool], score_gradients: Tensor, argmax: Tensor
) -> "Tuple[Tensor, ...]":
    """maxsim_backward: the gradients of queries, documents and weights in their types and shapes."""
    results = empty_gradients((inputs.queries, inputs.documents, inputs.weights), asked)
    _call(inputs).backward(library.MAXSIM, (argmax, score_gradients), results, with_workspace=asked[1])
    return results
