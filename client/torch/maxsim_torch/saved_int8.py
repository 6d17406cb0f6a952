"""MaxSim that keeps documents in int8 for its backward pass: a byte a value and four a token.

The backward pass wants the vectors of the document tokens that matched, for the gradients of queries and of weights.
It makes those again out of int8, a block of documents at a time. Scores and the gradients of documents, which need the
documents' vectors no more, are those without this to the bit.
"""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from .direct_calls import operator
from .document_blocks import Problem, QueryGradients, rows_of_winners, write_rows
from .operators import scores
from .tokens import FLOATS, Tokens, shaped


def quantize(rows: Tensor) -> Tuple[Tensor, Tensor]:
    """Vectors [..., d] in int8, and a scale each [...] in float32: the largest magnitude of the vector is 127. A value
    differs from its integer times the scale by half of the scale at most, with the rounding of that product."""
    values = rows.to(torch.float32)
    scales = values.abs().amax(-1) / 127
    inverse = torch.where(scales > 0, 1 / scales, 0).unsqueeze(-1)
    # What does not count may be a NaN, which has no integer, and is not read again.
    return (values * inverse).nan_to_num(0).round().clamp(-127, 127).to(torch.int8), scales


def dequantize(rows: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The vectors [..., d] that int8 rows and their scales [...] stand for."""
    return (rows.to(torch.float32) * scales.unsqueeze(-1)).to(dtype)


@operator("scores_saving_int8")
def scores_saving_int8(
    queries: Tensor,
    documents: Tensor,
    weights: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    pairing: int,
    list_length: int,
    empty_score: float,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """torch.ops.maxsim_torch.scores of `queries` [Nq, Lq, d] and `documents` [Nd, Ld, d], with matches; and what the
    backward pass keeps of the documents: int8 [Nd, Ld, d], and scales [Nd, Ld] in float32."""
    num_documents, max_tokens = documents.shape[:2]
    values, argmax = scores(
        queries,
        documents,
        weights,
        None,
        query_mask,
        query_lengths,
        None,
        None,
        document_mask,
        document_lengths,
        None,
        candidates,
        queries.shape[0],
        num_documents,
        queries.shape[1],
        max_tokens,
        pairing,
        list_length,
        empty_score,
        0,
        0,
        True,
    )
    saved = documents.new_empty(documents.shape, dtype=torch.int8)
    scales = documents.new_empty(documents.shape[:2], dtype=torch.float32)
    problem = _problem(queries, weights, query_mask, query_lengths, candidates, documents, pairing, list_length)
    step = problem.documents_a_block(0, documents.shape[2])
    for first in range(0, num_documents, step):
        part = slice(first, min(first + step, num_documents))
        saved[part], scales[part] = quantize(documents[part])
    return values, argmax, saved, scales


@scores_saving_int8.register_fake
def _scores_saving_int8_fake(  # type: ignore[no-untyped-def]
    queries,
    documents,
    weights,
    query_mask,
    query_lengths,
    document_mask,
    document_lengths,
    candidates,
    pairing,
    list_length,
    empty_score,
):
    shape = (queries.shape[0], list_length)
    return (
        queries.new_empty(shape, dtype=torch.float32),
        queries.new_empty((*shape, queries.shape[1]), dtype=torch.int32),
        documents.new_empty(documents.shape, dtype=torch.int8),
        documents.new_empty(documents.shape[:2], dtype=torch.float32),
    )


def _problem(
    queries: Tensor,
    weights: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    documents: Tensor,
    pairing: int,
    list_length: int,
) -> Problem:
    count, tokens = documents.shape[:2]
    return Problem(
        queries, weights, query_mask, query_lengths, None, None, candidates, count, tokens, pairing, list_length, 0.0
    )


@operator("scores_saving_int8_backward")
def scores_saving_int8_backward(
    score_gradients: Tensor,
    argmax: Tensor,
    saved: Tensor,
    scales: Tensor,
    queries: Tensor,
    weights: Optional[Tensor],
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    pairing: int,
    list_length: int,
    block_documents: int,
    of_queries: bool,
    of_documents: bool,
    of_weights: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries and documents in the queries' type, and of weights. Those that are not asked for are
    empty."""
    problem = _problem(queries, weights, query_mask, query_lengths, candidates, saved, pairing, list_length)
    sums = QueryGradients(problem, of_queries, of_weights)
    document_gradients = queries.new_zeros(saved.shape if of_documents else (0,))
    for block in problem.blocks(problem.documents_a_block(block_documents, saved.shape[2])):
        winners = problem.winners(block, argmax)
        kept = rows_of_winners(saved, block, winners)
        of_kept = rows_of_winners(scales.unsqueeze(-1), block, winners).squeeze(-1)
        rows = dequantize(kept, of_kept, queries.dtype)
        wanted = (of_queries, of_documents, of_weights)
        of_block = problem.gradients(block, winners, rows, score_gradients, wanted)
        sums.add(block, of_block[0], of_block[2])
        if of_documents:
            write_rows(document_gradients, block, winners, of_block[1])
    query_gradients, weight_gradients = sums.results()
    return query_gradients, document_gradients, weight_gradients


@scores_saving_int8_backward.register_fake
def _scores_saving_int8_backward_fake(  # type: ignore[no-untyped-def]
    score_gradients,
    argmax,
    saved,
    scales,
    queries,
    weights,
    query_mask,
    query_lengths,
    candidates,
    pairing,
    list_length,
    block_documents,
    of_queries,
    of_documents,
    of_weights,
):
    return (
        queries.new_empty(queries.shape if of_queries else (0,)),
        queries.new_empty(saved.shape if of_documents else (0,)),
        queries.new_empty(queries.shape[:2] if of_weights else (0,), dtype=torch.float32),
    )


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    queries, _, weights, query_mask, query_lengths = inputs[:5]
    candidates, pairing, list_length = inputs[7:10]
    ctx.save_for_backward(output[1], output[2], output[3], queries, weights, query_mask, query_lengths, candidates)
    ctx.numbers = (pairing, list_length, 0)


def _differentiate(ctx: Any, score_gradients: Tensor, *_: Any) -> Any:
    wanted = tuple(ctx.needs_input_grad[:3])
    gradients = scores_saving_int8_backward(score_gradients, *ctx.saved_tensors, *ctx.numbers, *wanted)
    return (*(gradient if asked else None for gradient, asked in zip(gradients, wanted)), *(None,) * 8)


scores_saving_int8.register_autograd(_differentiate, setup_context=_save)


def check(save_documents: Optional[str], queries: Tokens, documents: Tokens) -> bool:
    """Whether documents are to be kept in int8. Raises a ValueError for what they cannot be kept in."""
    if save_documents is None:
        return False
    if save_documents != "int8":
        raise ValueError(f'save_documents is {save_documents!r}; it is "int8" or None')
    for name, side in (("queries", queries), ("documents", documents)):
        if side.rows.dtype not in FLOATS:
            raise ValueError(f'save_documents="int8" is for what has gradients, and {name} are {side.rows.dtype}')
    return True


def score(
    queries: Tokens,
    documents: Tokens,
    weights: Optional[Tensor],
    candidates: Optional[Tensor],
    pairing: int,
    list_length: int,
    empty_score: float,
) -> Tuple[Tensor, Tensor]:
    """Scores [num_queries, list_length] and matches of padded queries and documents."""
    padded = (queries.num_sequences, queries.max_tokens)
    kept = (documents.num_sequences, documents.max_tokens)
    made: Tuple[Tensor, Tensor, Tensor, Tensor] = scores_saving_int8(
        queries.rows.reshape(*padded, queries.rows.shape[-1]),
        documents.rows.reshape(*kept, documents.rows.shape[-1]),
        shaped(weights, padded),
        shaped(queries.mask, padded),
        shaped(queries.lengths, padded[:1]),
        shaped(documents.mask, kept),
        shaped(documents.lengths, kept[:1]),
        shaped(candidates, (padded[0], list_length)),
        pairing,
        list_length,
        empty_score,
    )
    return made[0], made[1]
