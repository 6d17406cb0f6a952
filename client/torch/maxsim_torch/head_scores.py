"""The public function fused_head_scores, which scores documents that are hidden states."""

from typing import Optional, Union

from torch import Tensor

from .call_state import wants_gradient
from .checks import (
    check_columns,
    check_optional_tensors,
    check_tensors,
    checked_count,
    checked_number,
    explained,
    real_factors,
)
from .functions import ScoresAndArgmax, as_people_see
from .fused_head import fused_head
from .pairing import explain_values_of, pair
from .tokens import FLOATS, flat, padded, padded_queries, shaped


def _check_head(queries: Tensor, hidden: Tensor, weight: Tensor, bias: Optional[Tensor]) -> None:
    if hidden.dtype not in FLOATS or queries.dtype != hidden.dtype:
        raise TypeError(
            f"queries have type {queries.dtype} and hidden {hidden.dtype}; both must have one type, float32, float16 "
            f"or bfloat16"
        )
    if hidden.dim() not in (3, 4):
        raise ValueError(f"hidden has shape {tuple(hidden.shape)}; must be [Nd, Ld, h] or [Nq, K, Ld, h]")
    check_columns("queries", queries)
    if hidden.shape[-1] == 0:
        raise ValueError("hidden has 0 columns; must have 1 or more")
    wanted = (queries.shape[-1], hidden.shape[-1])
    if tuple(weight.shape) != wanted:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; with these queries and hidden it must be {wanted}")
    if bias is not None and tuple(bias.shape) != wanted[:1]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}; with these queries it must be {wanted[:1]}")


def fused_head_scores(
    queries: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    *,
    normalize: bool = True,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    token_weights: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    empty_score: float = float("-inf"),
    block_documents: Optional[int] = None,
    return_argmax: bool = False,
) -> Union[Tensor, ScoresAndArgmax]:
    """Returns float32 MaxSim scores of queries and of documents that are hidden states before a model's last layer:

        maxsim_scores(queries, normalize(linear(hidden, weight, bias)), ...)

    The vectors of all documents never exist at the same time, but only those of `block_documents` documents (None: as
    many as have 64 MiB of vectors in float32).

    `queries` are vectors [Nq, Lq, d] or [Lq, d], which the head has already made. `hidden` is [Nd, Ld, h] or, with K
    documents per query, [Nq, K, Ld, h]. `weight` [d, h] and `bias` [d] are those of torch.nn.Linear. queries and hidden
    have one type, float32, float16 or bfloat16, to which weight and bias are converted. d is 1 to 4,096. With
    `normalize`, vectors are divided in float32 by their length, or by 1e-12 if they are shorter, and then rounded to
    the type of hidden. `token_weights` [Nq, Lq] are a factor for each query token, which maxsim_scores calls weights.
    The shape of the result and all other arguments are those of maxsim_scores.

    Gradients of queries, hidden, weight, bias and token_weights have the same bits in every run with the same
    `block_documents`. The forward pass keeps `hidden`, the weight and the matches (int32, [..., Lq]). The backward pass
    projects the matched tokens of a document again. For lists, pairs and few queries, these are Lq tokens or a few
    times that. With candidates, and if all queries together have more tokens than a document, the backward pass
    projects all tokens of a block. Sums over documents are in float32.

    Memory in addition to inputs, results and matches: in the forward pass, three times a block's vectors in float32; in
    the backward pass, six times a block's vectors, the gradients and, with masks, lengths or few matches, a block of
    hidden states. Only the gradient of hidden grows with Nd, and it is not computed if hidden needs none.

    ValueError: shapes, lengths or candidates do not fit. TypeError: a type is not supported. NotImplementedError: the
    library does not support the device. On CUDA, lengths are not checked, and a candidate that is no document has the
    score `empty_score`. There are no second derivatives.
    """
    check_tensors(queries=queries, hidden=hidden, weight=weight)
    check_optional_tensors(
        bias=bias,
        query_lengths=query_lengths,
        query_mask=query_mask,
        document_lengths=document_lengths,
        document_mask=document_mask,
        token_weights=token_weights,
        candidates=candidates,
    )
    empty_score = checked_number("empty_score", empty_score)
    made, one_query = padded_queries(queries, query_lengths, query_mask, None)
    _check_head(queries, hidden, weight, bias)
    if block_documents is not None:
        block_documents = checked_count("block_documents", block_documents, 1)
    documents = padded("document", hidden, document_lengths, document_mask, None)
    if token_weights is not None:
        if tuple(token_weights.shape) != tuple(queries.shape[:-1]):
            shapes = f"{tuple(token_weights.shape)}, not {tuple(queries.shape[:-1])}"
            raise ValueError(f"token_weights have shape {shapes}")
        token_weights = real_factors("token_weights", token_weights).reshape(made.num_sequences, made.max_tokens)
    lists = ("hidden of [Nq, K, Ld, h] is", "hidden has documents of")
    pairs = pair(made, documents, candidates, paired, one_query, lists)
    weight = real_factors("weight", weight, hidden.dtype)
    bias = None if bias is None else real_factors("bias", bias, hidden.dtype)
    with_argmax = return_argmax or wants_gradient(queries, hidden, weight, bias, token_weights)
    flat_queries, flat_documents = flat(made), flat(documents)
    computed: "tuple[Tensor, Tensor]" = explained(
        lambda: fused_head(
            flat_queries.rows,
            flat_documents.rows,
            weight,
            bias,
            token_weights,
            flat_queries.mask,
            flat_queries.lengths,
            flat_documents.mask,
            flat_documents.lengths,
            shaped(pairs.candidates, (made.num_sequences, pairs.list_length)),
            pairs.pairing,
            pairs.list_length,
            empty_score,
            normalize,
            block_documents or 0,
            with_argmax,
        ),
        lambda: explain_values_of(made, documents, pairs.candidates),
    )
    return as_people_see(computed, pairs, made.max_tokens, return_argmax)
