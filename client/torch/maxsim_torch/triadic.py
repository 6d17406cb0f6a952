"""Operators of the third order, over all pairs of tokens of two sequences: three-way attention and three-way MaxSim."""

import math
from typing import Literal, NamedTuple, Optional, Union, overload

import torch
from torch import Tensor

from .checks import (
    MAX_COLUMNS,
    check_optional_tensors,
    check_tensors,
    checked_number,
    explain_values,
    explained,
    real_factors,
)
from .tokens import FLOATS, flat_rows, indices, of_one_type
from .triadic_operators import triadic, triadic_max

# The limits of triadic.h.
_MAX_ATTENTION_COLUMNS = 128
_MAX_TOKENS = 65536


class TriadicScores(NamedTuple):
    """Scores in float32, and in int32 the pair (first, second) of each query token (-1: none)."""

    scores: Tensor
    argmax: Tensor


def _outer(tensors: "dict[str, Tensor]", max_columns: int) -> "tuple[int, ...]":
    """Checks that all tensors have the same type, columns and outer dimensions, and returns the latter."""
    check_tensors(**tensors)
    (_, given), *others = tensors.items()
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise TypeError(f"{name} have type {tensor.dtype}; must be float32, float16 or bfloat16")
        if tensor.dim() < 2:
            raise ValueError(f"{name} have shape {tuple(tensor.shape)}; must be [..., tokens, d]")
        if torch.compiler.is_compiling():
            continue  # While tracing: the checks would restrict the graph, which is meant for any size.
        if tensor.shape[-2] > _MAX_TOKENS:
            raise ValueError(f"{name} have {tensor.shape[-2]} tokens; at most {_MAX_TOKENS} are allowed")
        if not 1 <= tensor.shape[-1] <= max_columns:
            raise ValueError(f"{name} have {tensor.shape[-1]} columns; must have 1 to {max_columns}")
    for name, tensor in others:
        same_shape = tensor.shape[:-2] == given.shape[:-2] and tensor.shape[-1] == given.shape[-1]
        if tensor.dtype != given.dtype or not same_shape:
            raise ValueError(
                f"queries are {tuple(given.shape)} of {given.dtype} and {name} {tuple(tensor.shape)} of "
                f"{tensor.dtype}; must have one type, and one shape but for the number of tokens"
            )
    return tuple(given.shape[:-2])


def _lengths(given: "dict[str, Optional[Tensor]]", outer: "tuple[int, ...]") -> "list[Optional[Tensor]]":
    """Returns lengths as vectors of one integer type. Their shape may be broadcast to that of the batch."""
    check_optional_tensors(**given)
    made: "list[Optional[Tensor]]" = []
    for name, lengths in given.items():
        if lengths is None:
            made.append(None)
            continue
        lengths = indices(name, lengths, tuple(lengths.shape))
        try:
            lengths = lengths.expand(outer)
        except RuntimeError:
            raise ValueError(f"{name} have shape {tuple(lengths.shape)}; must be {outer}") from None
        made.append(lengths.reshape(-1))
    return of_one_type(made)


def _explain(lengths: "dict[str, Optional[Tensor]]", sequences: "list[Tensor]") -> None:
    for (name, given), sequence in zip(lengths.items(), sequences):
        explain_values(name, given, sequence.shape[-2])


def triadic_attention(
    queries: Tensor,
    first_keys: Tensor,
    second_keys: Tensor,
    first_values: Tensor,
    second_values: Tensor,
    *,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None,
) -> Tensor:
    """Three-way attention: a softmax over all pairs (j, k) of a first and a second key.

        logit[i, j, k] = scale * sum_c queries[i, c] * first_keys[j, c] * second_keys[k, c]
        output[i]      = sum_jk softmax_jk(logit[i])[j, k] * (first_values[j] * second_values[k])

    `queries` are [..., n, d], `first_keys` and `first_values` [..., m, d], `second_keys` and `second_values`
    [..., l, d]. All have one type (float32, float16 or bfloat16). The leading dimensions are those of a batch, such as
    sequences and heads. d is 1 to 128, and n, m and l are at most 65,536. `first_lengths` and `second_lengths` are the
    numbers of keys in use: integers that broadcast to the leading dimensions. `scale` is 1 / sqrt(d) by default.

    Returns [..., n, d] in the inputs' type; a query without any pair of keys gets 0. The n x m x l logits are never
    stored: memory is linear in the lengths, forward and backward. Sums are in float32. GPUs multiply bfloat16 (and in
    the forward pass float16) on tensor cores; the products query * key and the softmax's weights are then rounded to
    that type. All five tensors have gradients, which are computed from the saved log of the softmax's denominator. Each
    row of a gradient is summed in a fixed order, so that every run gives the same bits. There are no second
    derivatives.

    Raises ValueError for shapes or lengths that do not fit, and TypeError for other types. On CUDA lengths are not
    checked.
    """
    tensors = {
        "queries": queries,
        "first_keys": first_keys,
        "second_keys": second_keys,
        "first_values": first_values,
        "second_values": second_values,
    }
    outer = _outer(tensors, _MAX_ATTENTION_COLUMNS)
    for name, keys, values in (("first", first_keys, first_values), ("second", second_keys, second_values)):
        if keys.shape != values.shape:
            raise ValueError(
                f"{name}_keys have shape {tuple(keys.shape)} and {name}_values {tuple(values.shape)}; must be "
                f"the same"
            )
    lengths_of = {"first_lengths": first_lengths, "second_lengths": second_lengths}
    lengths = _lengths(lengths_of, outer)
    if scale is None:
        scale = queries.shape[-1] ** -0.5
    scale = checked_number("scale", scale)
    if isinstance(scale, float) and not torch.compiler.is_compiling() and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; must be finite")
    output: Tensor
    rows = [flat_rows(tensor) for tensor in tensors.values()]
    output, _ = explained(
        lambda: triadic(*rows, *lengths, float(scale)),
        lambda: _explain(lengths_of, [first_keys, second_keys]),
    )
    return output.reshape(queries.shape)


@overload
def triadic_maxsim_scores(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    return_argmax: Literal[False] = False,
) -> Tensor: ...


@overload
def triadic_maxsim_scores(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    return_argmax: Literal[True],
) -> TriadicScores: ...


def triadic_maxsim_scores(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    return_argmax: bool = False,
) -> Union[Tensor, TriadicScores]:
    """Three-way MaxSim: each query token takes its best pair of a first and a second token.

        score = sum_i weight_i * max_jk sum_c queries[i, c] * first[j, c] * second[k, c]

    `queries` are [..., n, d], `first` [..., m, d] and `second` [..., l, d]. All have one type (float32, float16 or
    bfloat16). The leading dimensions are those of a batch. d is 1 to 4,096, and n, m and l are at most 65,536. Lengths
    are the numbers of tokens in use: integers that broadcast to the leading dimensions. `weights` [..., n] are a factor
    for each query token (1 by default).

    Returns scores [...] in float32; with `return_argmax` returns (scores, argmax). argmax [..., n, 2] in int32 is the
    best pair (j, k) of each query token, or (-1, -1) if there is none; of equally good pairs it is the one with the
    smallest j and then the smallest k. A query without tokens has the score 0. A query that has tokens but no pairs
    has the score -infinity, and no gradients.

    Sums are in float32. Gradients are in the inputs' type and flow only through the best pairs. They are summed in a
    fixed order, so that every run gives the same bits. There are no second derivatives.

    Raises ValueError for shapes or lengths that do not fit, and TypeError for other types. On CUDA lengths are not
    checked.
    """
    tensors = {"queries": queries, "first": first, "second": second}
    check_optional_tensors(weights=weights)
    outer = _outer(tensors, MAX_COLUMNS)
    given = {"query_lengths": query_lengths, "first_lengths": first_lengths, "second_lengths": second_lengths}
    lengths = _lengths(given, outer)
    rows = [flat_rows(tensor) for tensor in tensors.values()]
    maxima, argmax = explained(
        lambda: triadic_max(*rows, *lengths), lambda: _explain(given, list(tensors.values()))
    )
    scores = sum_maxima(maxima.reshape(queries.shape[:-1]), query_lengths, weights)
    if not return_argmax:
        return scores
    return TriadicScores(scores, argmax.reshape(*queries.shape[:-1], 2))


def sum_maxima(maxima: Tensor, lengths: Optional[Tensor], weights: Optional[Tensor]) -> Tensor:
    """Returns the sum of maxima [..., n] times weights [..., n] over the query tokens that exist."""
    if weights is not None:
        if weights.shape != maxima.shape:
            raise ValueError(f"weights have shape {tuple(weights.shape)}; must be {tuple(maxima.shape)}")
        # An infinite maximum stays infinite, and its weight gets no gradient.
        finite = torch.isfinite(maxima)
        weights = real_factors("weights", weights, maxima.dtype)
        maxima = torch.where(finite, torch.where(finite, maxima, 0) * weights, maxima)
    if lengths is not None:
        there = torch.arange(maxima.shape[-1], device=maxima.device) < lengths.unsqueeze(-1)
        maxima = torch.where(there, maxima, 0)
    return maxima.sum(-1)
