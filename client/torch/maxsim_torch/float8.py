"""Scores float8 values, after converting them to a type that the kernels multiply.

float16, bfloat16 and float32 have every value of float8_e4m3fn and float8_e5m2, so the conversion does not round.
Documents are converted one block at a time, so the converted matrix never exists as a whole.

The kernels do not multiply float8 directly: tensor cores of compute capability 9.0 add such products with fewer bits
than float32 has, so scores would differ from those of the converted values.
"""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import library
from .direct_calls import operator
from .document_blocks import Problem, part_of
from .operators import arguments_of, empty_results_of, scores
from .pairing import Pairs
from .tokens import FLOAT8, Tokens, flat, shaped


class Float8Scores(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.float8_scores."""

    queries: Tensor
    documents: Tensor
    weights: Optional[Tensor]
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    token_scales: Optional[Tensor]
    candidates: Optional[Tensor]
    pairing: int
    list_length: int
    empty_score: float
    block_documents: int
    with_argmax: bool


@operator("float8_scores", empty_results_of)
def float8_scores(inputs: Float8Scores) -> Tuple[Tensor, Tensor]:
    """Does what torch.ops.maxsim_torch.scores does for `queries` [Nq, Lq, d] in a type that the kernels multiply, and
    `documents` [Nd, Ld, d] in float8 or any other type. Documents are converted to the queries' type, `block_documents`
    at a time (0: as many as document_blocks.py chooses). `token_scales` [Nd, Ld] multiply the similarities
    of document tokens or, in float32, the tokens' vectors."""
    documents, token_scales = inputs.documents, inputs.token_scales
    problem = Problem.of(inputs, inputs.weights, documents)
    problem.check_candidates()
    result, argmax = empty_results_of(inputs)
    result.fill_(inputs.empty_score)
    argmax.fill_(-1)
    for block in problem.blocks(problem.documents_per_block(inputs.block_documents, documents.shape[2])):
        rows = documents[block.documents].to(inputs.queries.dtype)
        scales = part_of(token_scales, block.documents)
        if scales is not None and rows.dtype == torch.float32:  # the kernels do not scale float32
            rows, scales = rows * scales.unsqueeze(-1), None
        problem.score(block, rows, inputs.with_argmax, result, argmax, scales)
    return result, argmax


def is_float8(queries: Tokens, documents: Tokens) -> bool:
    """Returns true if queries or documents are float8."""
    return queries.rows.dtype in FLOAT8 or documents.rows.dtype in FLOAT8


def _common_type(queries: Tokens, documents: Tokens) -> torch.dtype:
    """Returns the type in which products are computed: the type of the side that is not float8, or float16 if both
    are."""
    for side in (queries, documents):
        if side.rows.dtype not in FLOAT8:
            return side.rows.dtype
    return torch.float16


def _query_factors(queries: Tokens, weights: Optional[Tensor]) -> Optional[Tensor]:
    """Returns the weights times the scales of the queries, one per row of the queries. A scale of 0 or more does not
    change which token is the best."""
    if queries.scales is None or queries.num_sequences == 0:
        return weights
    scales = queries.scales
    shape = queries.rows.shape[:-1]
    if queries.scale_of == library.SCALE_PER_TOKEN:
        scales = scales.reshape(shape)
    elif queries.offsets is None:
        scales = scales.reshape(-1, 1).expand(queries.num_sequences, queries.max_tokens).reshape(shape)
    else:
        rows = torch.arange(shape[0], device=scales.device)
        owner = torch.searchsorted(queries.offsets[1:].to(torch.int64), rows, right=True)
        scales = scales[owner.clamp_max(queries.num_sequences - 1)]
    return scales if weights is None else weights * scales


def _with_document_scales(values: Tensor, documents: Tokens, pairs: Pairs, empty_score: float) -> Tensor:
    """Returns the scores [num_queries, list_length] times the scale of each document. In `values`, empty documents have
    the score minus infinity; in the result, `empty_score`."""
    if documents.scales is not None and documents.scale_of == library.SCALE_PER_SEQUENCE:
        if pairs.candidates is not None:
            scales = documents.scales[pairs.candidates.reshape(values.shape)]
        elif pairs.pairing == library.ALL:
            scales = documents.scales.reshape(1, -1)
        else:
            scales = documents.scales.reshape(values.shape)
        values = torch.where(torch.isneginf(values), values, values * scales)
    return torch.where(torch.isneginf(values), empty_score, values)


def score(
    queries: Tokens,
    documents: Tokens,
    weights: Optional[Tensor],
    pairs: Pairs,
    empty_score: float,
    with_argmax: bool,
) -> Tuple[Tensor, Tensor]:
    """Returns scores [num_queries, list_length] and matches, as torch.ops.maxsim_torch.scores does, if one side is
    float8. Padded documents are converted in blocks, packed ones as a whole."""
    common = _common_type(queries, documents)
    factors = _query_factors(queries, weights)
    minus_infinity = float("-inf")
    token_scales = documents.scales if documents.scale_of == library.SCALE_PER_TOKEN else None
    converted = queries._replace(rows=queries.rows.to(common), scales=None, scale_of=library.SCALE_PER_SEQUENCE)
    values: Tensor
    argmax: Tensor
    if queries.offsets is None and documents.offsets is None:
        made, kept = flat(converted), flat(documents)
        values, argmax = float8_scores(
            made.rows,
            kept.rows,
            shaped(factors, (made.num_sequences, made.max_tokens)),
            made.mask,
            made.lengths,
            kept.mask,
            kept.lengths,
            None if token_scales is None else kept.scales,
            shaped(pairs.candidates, (made.num_sequences, pairs.list_length)),
            pairs.pairing,
            pairs.list_length,
            minus_infinity,
            0,
            with_argmax,
        )
    else:
        plain = documents._replace(rows=documents.rows.to(common))
        if token_scales is not None and common == torch.float32:  # the kernels do not scale float32
            plain, token_scales = plain._replace(rows=plain.rows * token_scales.unsqueeze(-1)), None
        if token_scales is None:
            plain = plain._replace(scales=None, scale_of=library.SCALE_PER_SEQUENCE)
        values, argmax = scores(*arguments_of(converted, plain, factors, pairs, minus_infinity, with_argmax))
    return _with_document_scales(values, documents, pairs, empty_score), argmax
