"""Scores documents that are hidden states: a linear layer, normalisation and MaxSim in one operator.

The vectors of all documents never exist at the same time. The forward pass computes the vectors of one block of
documents after another. The backward pass computes the vectors of the tokens that matched again, from the hidden
states, the weight and the matches.
"""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .direct_calls import operator
from .document_blocks import Problem, QueryGradients, Winners, part_of, rows_of_winners, write_rows
from .operators import empty_results_of
from .tokens import counting

# Vectors shorter than this are divided by it, as in torch.nn.functional.normalize.
_SHORTEST = 1e-12


def _without_autocast(device: torch.device) -> Any:
    """Turns autocast off. The backward pass projects again, and must get the numbers of the forward pass, whether the
    caller uses autocast or not."""
    return torch.autocast(device.type, enabled=False)


class _Projected(NamedTuple):
    """Vectors in the type of the hidden states, the same in float32 before rounding, and what the backward pass needs:
    1 / length of each [..., 1], and whether the length was at least _SHORTEST. The last two are None without
    normalisation."""

    rows: Tensor
    exact: Tensor
    inverse: Optional[Tensor]
    smooth: Optional[Tensor]


def _project(hidden: Tensor, weight: Tensor, bias: Optional[Tensor], normalize: bool) -> _Projected:
    """Returns the vectors [..., d] of hidden states [..., h]. Computes the matrix product in their type, and the rest
    in float32."""
    product = torch.nn.functional.linear(hidden, weight, bias)
    exact = product.to(torch.float32)
    if not normalize:
        return _Projected(product, exact, None, None)
    length = exact.square().sum(-1, keepdim=True).sqrt()
    inverse = 1 / length.clamp_min(_SHORTEST)
    exact = exact * inverse
    return _Projected(exact.to(hidden.dtype), exact, inverse, length >= _SHORTEST)


def _through_normalisation(projected: _Projected, gradients: Tensor) -> Tensor:
    """Returns the gradient of the linear layer's output, in its type, from the gradient of the vectors."""
    if projected.inverse is None or projected.smooth is None:
        return gradients
    values = gradients.to(torch.float32)
    along = (values * projected.exact).sum(-1, keepdim=True)
    values = projected.inverse * (values - torch.where(projected.smooth, along, 0) * projected.exact)
    return values.to(gradients.dtype)


def _without_what_does_not_count(hidden: Tensor, winners: Winners, problem: Problem, documents: slice) -> Tensor:
    """Returns the rows, with zeros for tokens that masks and lengths leave out, so that the values of these tokens
    reach no sum."""
    if problem.document_mask is None and problem.document_lengths is None:
        return hidden
    lengths, mask = part_of(problem.document_lengths, documents), part_of(problem.document_mask, documents)
    counts = counting((hidden.shape[0], problem.max_document_tokens), lengths, mask, hidden.device)
    if winners.picked is not None:
        counts = counts.gather(1, winners.picked)
    return torch.where(counts.unsqueeze(-1), hidden, 0)


class FusedHead(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.fused_head."""

    queries: Tensor
    hidden: Tensor
    weight: Tensor
    bias: Optional[Tensor]
    token_weights: Optional[Tensor]
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    candidates: Optional[Tensor]
    pairing: int
    list_length: int
    empty_score: float
    normalize: bool
    block_documents: int
    with_argmax: bool


@operator("fused_head", empty_results_of)
def fused_head(inputs: FusedHead) -> Tuple[Tensor, Tensor]:
    """Returns the scores [num_queries, list_length] in float32 of `queries` [num_queries, Lq, d] with the vectors of
    `hidden` [num_documents, Ld, h]. With with_argmax also returns the matches [num_queries, list_length, Lq] in int32,
    otherwise empty ones. `weight` is [d, h] and `bias` [d]; all have one type. If `block_documents` is 0,
    document_blocks.py chooses it. The other numbers are those of torch.ops.maxsim_torch.scores."""
    hidden, weight = inputs.hidden, inputs.weight
    problem = Problem.of(inputs, inputs.token_weights, hidden)
    problem.check_candidates()
    result, argmax = empty_results_of(inputs)
    if inputs.candidates is not None:
        result.fill_(inputs.empty_score)
        argmax.fill_(-1)
    with _without_autocast(hidden.device):
        for block in problem.blocks(problem.documents_per_block(inputs.block_documents, weight.shape[0])):
            rows = _project(hidden[block.documents], weight, inputs.bias, inputs.normalize).rows
            problem.score(block, rows, inputs.with_argmax, result, argmax)
    return result, argmax


def _empty_gradients(inputs: FusedHead, asked: Sequence[bool], *_: Any) -> "Tuple[Tensor, ...]":
    queries, hidden, weight = inputs[:3]
    shapes = (queries.shape, hidden.shape, weight.shape, weight.shape[:1], queries.shape[:2])
    types = (queries.dtype, hidden.dtype, weight.dtype, weight.dtype, torch.float32)
    return tuple(
        queries.new_empty(shape if wanted else (0,), dtype=dtype) for shape, dtype, wanted in zip(shapes, types, asked)
    )


@fused_head.gradients(
    of=FusedHead._fields[:5], without={"empty_score": 0.0, "with_argmax": True}, empty=_empty_gradients
)
def fused_head_backward(
    inputs: FusedHead, asked: Sequence[bool], score_gradients: Tensor, argmax: Tensor
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of queries, hidden, weight, bias and token_weights in their types and shapes."""
    of_queries, of_hidden, of_weight, of_bias, of_token_weights = asked
    hidden, weight = inputs.hidden, inputs.weight
    problem = Problem.of(inputs, inputs.token_weights, hidden)
    of_rows = of_hidden or of_weight or of_bias
    sums = QueryGradients(problem, of_queries, of_token_weights)
    hidden_gradients = hidden.new_zeros(hidden.shape if of_hidden else (0,))
    weight_sum = weight.new_zeros(weight.shape if of_weight else (0,), dtype=torch.float32)
    bias_sum = weight.new_zeros(weight.shape[:1] if of_bias else (0,), dtype=torch.float32)
    with _without_autocast(hidden.device):
        for block in problem.blocks(problem.documents_per_block(inputs.block_documents, weight.shape[0])):
            winners = problem.winners(block, argmax)
            states = rows_of_winners(hidden, block, winners)
            states = _without_what_does_not_count(states, winners, problem, block.documents)
            projected = _project(states, weight, inputs.bias, inputs.normalize)
            wanted = (of_queries, of_rows, of_token_weights)
            of_block = problem.gradients(block, winners, projected.rows, score_gradients, wanted)
            sums.add(block, of_block[0], of_block[2])
            if not of_rows:
                continue
            outputs = _through_normalisation(projected, of_block[1])
            del projected, of_block
            flat = outputs.reshape(-1, outputs.shape[-1])
            if of_weight:
                weight_sum += flat.T @ states.reshape(-1, states.shape[-1])
            if of_bias:
                bias_sum += flat.sum(0, dtype=torch.float32)
            if of_hidden:
                write_rows(hidden_gradients, block, winners, outputs @ weight)
    query_gradients, token_weight_gradients = sums.results()
    return (
        query_gradients,
        hidden_gradients,
        weight_sum.to(weight.dtype),
        bias_sum.to(weight.dtype),
        token_weight_gradients,
    )
