"""MaxSim that keeps documents in int8 for its backward pass: a byte per value and four per token.

The backward pass needs the vectors of the document tokens that matched, for the gradients of queries and of weights.
It makes those again out of int8, a block of documents at a time. Scores and the gradients of documents do not need
these vectors, and are equal to the bit to those without int8.
"""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .direct_calls import operator
from .document_blocks import Problem, QueryGradients, rows_of_winners, write_rows
from .operators import arguments_of, empty_results, scores
from .pairing import Pairs
from .tokens import FLOATS, Tokens, flat, plain_tokens, shaped


def quantize(rows: Tensor) -> Tuple[Tensor, Tensor]:
    """Returns vectors [..., d] in int8 and one scale per vector [...] in float32. The largest magnitude in a vector
    becomes 127. A value differs from its integer times the scale by at most half of the scale, plus rounding."""
    values = rows.to(torch.float32)
    scales = values.abs().amax(-1) / 127
    inverse = torch.where(scales > 0, 1 / scales, 0).unsqueeze(-1)
    # A token that is masked or after the end may be NaN, which no integer represents. Its row is not read again.
    return (values * inverse).nan_to_num(0).round().clamp(-127, 127).to(torch.int8), scales


def dequantize(rows: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the vectors [..., d] that int8 rows and their scales [...] stand for."""
    return (rows.to(torch.float32) * scales.unsqueeze(-1)).to(dtype)


class SavingInt8(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.scores_saving_int8."""

    queries: Tensor
    documents: Tensor
    weights: Optional[Tensor]
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    candidates: Optional[Tensor]
    pairing: int
    list_length: int
    empty_score: float


def _empty_results(inputs: SavingInt8) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    queries, documents = inputs.queries, inputs.documents
    num_queries, max_query_tokens = queries.shape[:2]
    return (
        *empty_results(queries, num_queries, inputs.list_length, max_query_tokens, with_argmax=True),
        documents.new_empty(documents.shape, dtype=torch.int8),
        documents.new_empty(documents.shape[:2], dtype=torch.float32),
    )


@operator("scores_saving_int8", _empty_results)
def scores_saving_int8(inputs: SavingInt8) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes torch.ops.maxsim_torch.scores, with matches, of `queries` [Nq, Lq, d] and `documents` [Nd, Ld, d]. Also
    returns what the backward pass keeps of the documents: int8 rows [Nd, Ld, d], and scales [Nd, Ld] in float32."""
    queries = plain_tokens(inputs.queries, inputs.query_mask, inputs.query_lengths)
    documents = plain_tokens(inputs.documents, inputs.document_mask, inputs.document_lengths)
    pairs = Pairs(inputs.candidates, inputs.pairing, inputs.list_length)
    values, argmax = scores(*arguments_of(queries, documents, inputs.weights, pairs, inputs.empty_score, True))
    rows = documents.rows
    saved = rows.new_empty(rows.shape, dtype=torch.int8)
    scales = rows.new_empty(rows.shape[:2], dtype=torch.float32)
    step = Problem.of(inputs, inputs.weights, rows).documents_per_block(0, rows.shape[2])
    for first in range(0, documents.num_sequences, step):
        part = slice(first, min(first + step, documents.num_sequences))
        saved[part], scales[part] = quantize(rows[part])
    return values, argmax, saved, scales


def _empty_gradients(
    inputs: SavingInt8, asked: Sequence[bool], _score_gradients: Tensor, _argmax: Tensor, saved: Tensor, *_: Any
) -> Tuple[Tensor, Tensor, Tensor]:
    queries = inputs.queries
    return (
        queries.new_empty(queries.shape if asked[0] else (0,)),
        queries.new_empty(saved.shape if asked[1] else (0,)),
        queries.new_empty(queries.shape[:2] if asked[2] else (0,), dtype=torch.float32),
    )


@scores_saving_int8.gradients(
    of=("queries", "documents", "weights"),
    without={"documents": None, "document_mask": None, "document_lengths": None, "empty_score": 0.0},
    empty=_empty_gradients,
)
def scores_saving_int8_backward(
    inputs: SavingInt8,
    asked: Sequence[bool],
    score_gradients: Tensor,
    argmax: Tensor,
    saved: Tensor,
    scales: Tensor,
    block_documents: int = 0,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of queries and documents, in the queries' type, and of weights."""
    of_queries, of_documents, of_weights = asked
    queries = inputs.queries
    problem = Problem.of(inputs, inputs.weights, saved)
    sums = QueryGradients(problem, of_queries, of_weights)
    document_gradients = queries.new_zeros(saved.shape if of_documents else (0,))
    for block in problem.blocks(problem.documents_per_block(block_documents, saved.shape[2])):
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


def check(save_documents: Optional[str], queries: Tokens, documents: Tokens) -> bool:
    """Returns whether documents are kept in int8. Raises a ValueError if they cannot be."""
    if save_documents is None:
        return False
    if save_documents != "int8":
        raise ValueError(f'save_documents is {save_documents!r}; must be "int8" or None')
    for name, side in (("queries", queries), ("documents", documents)):
        if side.rows.dtype not in FLOATS:
            raise ValueError(f'save_documents="int8" needs documents with gradients, but {name} are {side.rows.dtype}')
    return True


def score(
    queries: Tokens, documents: Tokens, weights: Optional[Tensor], pairs: Pairs, empty_score: float
) -> Tuple[Tensor, Tensor]:
    """Returns scores [num_queries, list_length] and matches of padded queries and documents."""
    queries, documents = flat(queries), flat(documents)
    made: Tuple[Tensor, Tensor, Tensor, Tensor] = scores_saving_int8(
        queries.rows,
        documents.rows,
        shaped(weights, (queries.num_sequences, queries.max_tokens)),
        queries.mask,
        queries.lengths,
        documents.mask,
        documents.lengths,
        shaped(pairs.candidates, (queries.num_sequences, pairs.list_length)),
        pairs.pairing,
        pairs.list_length,
        empty_score,
    )
    return made[0], made[1]
