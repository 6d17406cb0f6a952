"""The public functions maxsim_scores and maxsim_scores_packed, which check their arguments and call the operators."""

from typing import Literal, NamedTuple, Optional, Union, overload

import torch
from torch import Tensor

from . import float8, saved_int8
from .call_state import hides_gradients
from .checks import (
    MAX_DOCUMENT_TOKENS,
    MAX_QUERY_TOKENS,
    check_columns,
    check_optional_tensors,
    check_tensors,
    checked_count,
    checked_number,
    explained,
    real_factors,
)
from .operators import arguments_of, scores
from .pairing import Pairs, explain_values_of, pair
from .tokens import Tokens, check_type, packed, padded, padded_queries


class ScoresAndArgmax(NamedTuple):
    """Scores in float32, and in int32 the document token that each query token matched (-1: none)."""

    scores: Tensor
    argmax: Tensor


def _check_inputs(queries: Tokens, documents: Tokens, weights: Optional[Tensor]) -> bool:
    """Raises an error for wrong types, columns or weights. Returns whether an input needs a gradient."""
    types = (queries.rows.dtype, documents.rows.dtype)
    same_type = types[0] == types[1] or (float8.is_float8(queries, documents) and torch.int8 not in types)
    if not same_type or queries.rows.shape[-1] != documents.rows.shape[-1]:
        raise ValueError(
            f"queries are {types[0]} with {queries.rows.shape[-1]} columns, documents {types[1]} "
            f"with {documents.rows.shape[-1]}; both must be the same"
        )
    if weights is not None and tuple(weights.shape) != tuple(queries.rows.shape[:-1]):
        raise ValueError(f"weights have shape {tuple(weights.shape)}; must be {tuple(queries.rows.shape[:-1])}")
    inputs = (queries.rows, documents.rows, weights)
    if not torch.is_grad_enabled():
        return False
    for name, scales in (("query_scales", queries.scales), ("document_scales", documents.scales)):
        if scales is not None and scales.requires_grad:
            raise NotImplementedError(f"{name} require a gradient, but scales have none")
    differentiated = any(tensor is not None and tensor.requires_grad for tensor in inputs)
    if differentiated and torch.int8 in types:
        raise NotImplementedError("int8 queries and documents have no gradients, those of weights included")
    if differentiated and float8.is_float8(queries, documents):
        raise NotImplementedError("scores of float8 queries or documents have no gradients; convert them before")
    return differentiated


def _score(
    queries: Tokens,
    documents: Tokens,
    weights: Optional[Tensor],
    pairs: Pairs,
    empty_score: float,
    return_argmax: bool,
    save_documents: Optional[str] = None,
) -> Union[Tensor, ScoresAndArgmax]:
    differentiated = _check_inputs(queries, documents, weights)
    may_differentiate = differentiated or hides_gradients()
    with_argmax = may_differentiate or return_argmax
    saves_int8 = saved_int8.check(save_documents, queries, documents) and may_differentiate
    if weights is not None:
        weights = real_factors("weights", weights)

    def compute() -> "tuple[Tensor, Tensor]":
        """Returns scores and matches, computed by the operator for these types."""
        if float8.is_float8(queries, documents):
            return float8.score(queries, documents, weights, pairs, empty_score, with_argmax)
        if saves_int8:
            return saved_int8.score(queries, documents, weights, pairs, empty_score)
        made: "tuple[Tensor, Tensor]" = scores(
            *arguments_of(queries, documents, weights, pairs, empty_score, with_argmax)
        )
        return made

    computed = explained(compute, lambda: explain_values_of(queries, documents, pairs.candidates))
    if len(pairs.shape) == 2 and not return_argmax:
        return computed[0]  # the operators' scores as they are
    return as_people_see(computed, pairs, queries.max_tokens, return_argmax)


def as_people_see(
    computed: "tuple[Tensor, Tensor]", pairs: Pairs, max_query_tokens: int, return_argmax: bool
) -> Union[Tensor, ScoresAndArgmax]:
    """Returns an operator's scores [num_queries, list_length] and matches in the shape that the caller expects."""
    values, argmax = computed
    shape = pairs.shape
    if len(shape) != 2:  # The operators' scores have two dimensions already.
        values = values.reshape(shape)
        argmax = argmax.reshape((*shape, max_query_tokens)) if return_argmax else argmax
    return ScoresAndArgmax(values, argmax) if return_argmax else values


@overload
def maxsim_scores(
    queries: Tensor,
    documents: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    save_documents: Optional[Literal["int8"]] = None,
    return_argmax: Literal[False] = False,
) -> Tensor: ...


@overload
def maxsim_scores(
    queries: Tensor,
    documents: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    save_documents: Optional[Literal["int8"]] = None,
    return_argmax: Literal[True],
) -> ScoresAndArgmax: ...


def maxsim_scores(
    queries: Tensor,
    documents: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    save_documents: Optional[Literal["int8"]] = None,
    return_argmax: bool = False,
) -> Union[Tensor, ScoresAndArgmax]:
    """Returns MaxSim scores of padded queries and documents, in float32.

    Shapes: `queries` are [Nq, Lq, d], or one query [Lq, d], whose result has no first dimension. d is 1 to 4,096, Lq at
    most 4,096 and Ld at most 65,536.

    | `documents` | result |
    |---|---|
    | [Nd, Ld, d] | [Nq, Nd]: every query with every document |
    | [Nq, Ld, d], `paired=True` | [Nq]: each query with its document |
    | [Nd, Ld, d], `candidates` [Nq, K] of indices of documents | [Nq, K] |
    | [Nq, K, Ld, d] | [Nq, K]: K documents for each query, as in distillation |

    `query_lengths` [Nq] and `document_lengths` (the shape of `documents` without its last two dimensions) are integers:
    the number of tokens of each. `query_mask` [Nq, Lq] and `document_mask` [..., Ld] are booleans, or 0 and 1. A token
    counts if both lengths and mask include it. `weights` [Nq, Lq] are a factor for each query token.

    Queries and documents have one type: float32, float16, bfloat16, or int8 with scales, float32 and 0 or more, one for
    each sequence ([Nq], the shape of `document_lengths`), one for each token ([Nq, Lq], that of `document_mask`), or
    one for all ([]). int8 values are from -127 to 127. Values must be finite: a NaN or an infinity makes scores
    meaningless, and such scores may look like others.

    Either side, or both, may also be float8_e4m3fn or float8_e5m2, with or without scales like those of int8. float8 is
    converted without rounding: to the type of the other side, or to float16 if both sides are float8. Scales are
    applied in float32 arithmetic, so they do not round vectors in half precision. Documents are converted in blocks of
    at most 64 MiB, so a matrix in float8 takes one byte per value and the memory of a block. Float8 tensor cores are
    not used.

    A document in which no token counts has the score `empty_score`. A query in which no token counts has the score 0
    with every document. These scores have no gradients. With `return_argmax` the result is (scores, argmax). argmax
    [..., Lq] in int32 is the index of the document token that each query token matched, the smallest index if several
    are equal, or -1 if none counts.

    Gradients of queries, documents and weights are computed only from the matches, in the inputs' types (int8 and
    float8 have none), with sums in float32. All results have the same bits in every run. There are no second
    derivatives.

    With `save_documents="int8"`, the backward pass does not keep `documents`, but their values in int8 with a float32
    scale per token, Nd * Ld * (d + 4) bytes, and restores the vectors that matched. Scores and gradients of documents
    have the same bits as without it. Each value of a restored vector has an error of at most half its scale, max
    |values of the token| / 254, and the error of rounding to its type. So the error of a query token's gradient is at
    most the sum over its documents of |score gradient * weight| times this error. The error of a weight's gradient is
    at most the sum over the documents of |score gradient| times this error times the sum of |values of the query
    token|.

    ValueError: shapes, lengths or candidates do not fit. TypeError: a type is not supported. NotImplementedError: the
    library does not support the device, or a gradient is needed that it does not compute. On CUDA, lengths and
    candidates are not checked.
    """
    check_tensors(queries=queries, documents=documents)
    check_optional_tensors(
        query_lengths=query_lengths,
        query_mask=query_mask,
        document_lengths=document_lengths,
        document_mask=document_mask,
        weights=weights,
        query_scales=query_scales,
        document_scales=document_scales,
        candidates=candidates,
    )
    empty_score = checked_number("empty_score", empty_score)
    check_type("queries", queries, query_scales)
    check_type("documents", documents, document_scales)
    check_columns("queries", queries)
    check_columns("documents", documents)
    made_queries, one_query = padded_queries(queries, query_lengths, query_mask, query_scales)
    if documents.dim() not in (3, 4):
        raise ValueError(f"documents have shape {tuple(documents.shape)}; must be [Nd, Ld, d] or [Nq, K, Ld, d]")
    made_documents = padded("document", documents, document_lengths, document_mask, document_scales)
    pairs = pair(made_queries, made_documents, candidates, paired, one_query)
    return _score(made_queries, made_documents, weights, pairs, empty_score, return_argmax, save_documents)


@overload
def maxsim_scores_packed(
    queries: Tensor,
    documents: Tensor,
    document_offsets: Tensor,
    *,
    query_offsets: Optional[Tensor] = None,
    max_query_tokens: Optional[int] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    return_argmax: Literal[False] = False,
) -> Tensor: ...


@overload
def maxsim_scores_packed(
    queries: Tensor,
    documents: Tensor,
    document_offsets: Tensor,
    *,
    query_offsets: Optional[Tensor] = None,
    max_query_tokens: Optional[int] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    return_argmax: Literal[True],
) -> ScoresAndArgmax: ...


def maxsim_scores_packed(
    queries: Tensor,
    documents: Tensor,
    document_offsets: Tensor,
    *,
    query_offsets: Optional[Tensor] = None,
    max_query_tokens: Optional[int] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    return_argmax: bool = False,
) -> Union[Tensor, ScoresAndArgmax]:
    """Returns MaxSim scores, in float32, of documents that follow one another in one matrix, without padding.

    `documents` are [tokens, d], and `document_offsets` [Nd + 1] (cu_seqlens, int32 or int64) say where each document
    begins and where the last one ends. With `document_lengths` [Nd], the offsets are [Nd], and a document has that many
    rows from its offset on. Documents may then be anywhere in the matrix, for example in a model's output, and may
    overlap. A document has at most 65,536 tokens. `document_mask` is [tokens]. `document_scales` of int8 or float8 are
    [Nd] or, for each token, [tokens, 1] or [tokens]. If Nd equals the number of tokens, [Nd] is refused, because it
    could mean either. Documents in float8 are converted as a whole here.

    `queries` are padded as in maxsim_scores ([Nq, Lq, d] or [Lq, d]). With `query_offsets` [Nq + 1] they are packed
    too: [tokens, d], `query_mask` and `weights` are [tokens], and `max_query_tokens` is the largest number of tokens of
    a query (0 to 4,096), which is not checked on CUDA.

    The result is [Nq, Nd] ([Nd] for one query [Lq, d]), with `paired` [Nq], with `candidates` [Nq, K]. Everything else,
    including gradients, is as in maxsim_scores; the argmax is [..., max_query_tokens]. Values must be finite here too:
    a NaN or an infinity makes scores meaningless, and such scores may look like others.
    """
    check_tensors(queries=queries, documents=documents, document_offsets=document_offsets)
    check_optional_tensors(
        query_offsets=query_offsets,
        query_lengths=query_lengths,
        query_mask=query_mask,
        document_lengths=document_lengths,
        document_mask=document_mask,
        weights=weights,
        query_scales=query_scales,
        document_scales=document_scales,
        candidates=candidates,
    )
    empty_score = checked_number("empty_score", empty_score)
    check_type("queries", queries, query_scales)
    check_type("documents", documents, document_scales)
    check_columns("queries", queries)
    check_columns("documents", documents)
    made_documents = packed(
        "document", documents, document_offsets, document_lengths, document_mask, document_scales, MAX_DOCUMENT_TOKENS
    )
    if query_offsets is None:
        if max_query_tokens is not None:
            raise ValueError("max_query_tokens is for packed queries, which need query_offsets")
        made_queries, one_query = padded_queries(queries, query_lengths, query_mask, query_scales)
    else:
        one_query = False
        if max_query_tokens is None or query_lengths is not None:
            raise ValueError("packed queries need max_query_tokens, and take no query_lengths")
        max_query_tokens = checked_count("max_query_tokens", max_query_tokens, 0, MAX_QUERY_TOKENS)
        made_queries = packed("query", queries, query_offsets, None, query_mask, query_scales, max_query_tokens)
    pairs = pair(made_queries, made_documents, candidates, paired, one_query)
    return _score(made_queries, made_documents, weights, pairs, empty_score, return_argmax)
