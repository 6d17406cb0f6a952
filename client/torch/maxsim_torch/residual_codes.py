"""The public functions that score documents which are stored as residual codes."""

from typing import Literal, Optional, Union, overload

import torch
from torch import Tensor

from .call_state import wants_gradient
from .checks import (
    MAX_DOCUMENT_TOKENS,
    check_columns,
    check_optional_tensors,
    check_tensors,
    checked_number,
    explained,
    real_factors,
)
from .functions import ScoresAndArgmax, as_people_see
from .pairing import explain_values_of, pair
from .residual_codes_operators import BIT_ORDERS
from .residual_codes_operators import residual_code_scores as operator
from .residual_codes_reference import check_codes
from .tokens import FLOATS, Tokens, flat, packed, padded, padded_queries


def _check_codes(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    bit_order: str,
) -> Tensor:
    """Refuses codes that do not fit together. Returns the centroid numbers in int32 or int64."""
    if queries.dtype not in FLOATS:
        raise TypeError(f"queries have type {queries.dtype}; must be float32, float16 or bfloat16")
    if queries.dim() not in (2, 3):
        raise ValueError(f"queries have shape {tuple(queries.shape)}; must be [Nq, Lq, d] or [Lq, d]")
    check_columns("queries", queries)
    check_tensors(centroids=centroids)
    if centroids.dim() == 2 and centroids.shape[1] != queries.shape[-1]:
        raise ValueError(f"centroids have {centroids.shape[1]} columns, but queries have {queries.shape[-1]}")
    numbers = check_codes(centroid_numbers, residuals, centroids, bucket_weights, bit_order)
    for name, tensor in (("centroids", centroids), ("bucket_weights", bucket_weights)):
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise NotImplementedError(f"{name} require a gradient, but residual codes have none")
    return numbers


def _documents(
    residuals: Tensor, offsets: Optional[Tensor], lengths: Optional[Tensor], mask: Optional[Tensor]
) -> Tokens:
    if offsets is not None:
        if residuals.dim() != 2:
            shape = tuple(residuals.shape[:-1])
            raise ValueError(f"centroid_numbers have shape {shape}; with document_offsets they must be [tokens]")
        return packed("document", residuals, offsets, lengths, mask, None, MAX_DOCUMENT_TOKENS)
    if residuals.dim() not in (3, 4):
        raise ValueError(
            f"centroid_numbers have shape {tuple(residuals.shape[:-1])}; without document_offsets they must be "
            "[Nd, Ld] or [Nq, K, Ld]"
        )
    return padded("document", residuals, lengths, mask, None)


@overload
def residual_code_scores(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    *,
    document_offsets: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    normalize: bool = True,
    bit_order: str = "colbert",
    empty_score: float = float("-inf"),
    return_argmax: Literal[False] = False,
) -> Tensor: ...


@overload
def residual_code_scores(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    *,
    document_offsets: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    normalize: bool = True,
    bit_order: str = "colbert",
    empty_score: float = float("-inf"),
    return_argmax: Literal[True],
) -> ScoresAndArgmax: ...


def residual_code_scores(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    *,
    document_offsets: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    paired: bool = False,
    normalize: bool = True,
    bit_order: str = "colbert",
    empty_score: float = float("-inf"),
    return_argmax: bool = False,
) -> Union[Tensor, ScoresAndArgmax]:
    """Returns MaxSim scores, in float32, of documents that are stored as residual codes, as in the indexes of
    ColBERTv2, PLAID and fast-plaid (Santhanam et al., 2022). The kernel decodes each code when it needs it, so the
    matrix of the decoded vectors is never in memory.

    queries: [Nq, Lq, d], or one query [Lq, d], in float32, float16 or bfloat16.
    centroid_numbers: integers, the centroid of each document token: [Nd, Ld]; [Nq, K, Ld], a list for each query; or
        with `document_offsets` [tokens].
    residuals: uint8 [..., d * nbits / 8], a packed bucket for each column of each token.
    centroids: [C, d]. bucket_weights: [2^nbits]; their number determines nbits, which is 1, 2, 4 or 8.
    document_offsets: [Nd + 1] (cu_seqlens) if documents follow one another; or the first token of each document, with
        `document_lengths` [Nd], if documents lie anywhere among the tokens.

    A token's vector is its centroid plus, in each column, the weight of the column's bucket; with `normalize` the
    vector is then divided by its norm. Centroids, weights and sums are rounded to the type of the queries; everything
    else is float32. Queries are not normalised. `bit_order` is "colbert", the order in those indexes, or "low_first",
    where the first column has the lowest bits of a byte: see decompress_residual_codes.

    The result is [Nq, Nd] ([Nd] for one query), with `paired` [Nq], with `candidates` [Nq, K] of indices of documents,
    or with a list for each query, [Nq, K]. Lengths, masks, `weights`, `empty_score` and `return_argmax` are those of
    maxsim_scores and maxsim_scores_packed.

    Queries and weights have gradients, which flow only through the matched document tokens; documents have none.
    Results are the same bits in every run.

    Raises ValueError for arguments that do not fit together, TypeError for wrong types, and NotImplementedError for a
    device other than "cpu" and "cuda", or if `centroids` or `bucket_weights` require a gradient. A
    centroid number that no centroid has raises ValueError on the CPU; CUDA does not check it, and the scores are then
    meaningless.
    """
    check_tensors(queries=queries)
    check_optional_tensors(
        document_offsets=document_offsets,
        document_lengths=document_lengths,
        document_mask=document_mask,
        query_lengths=query_lengths,
        query_mask=query_mask,
        weights=weights,
        candidates=candidates,
    )
    empty_score = checked_number("empty_score", empty_score)
    numbers = _check_codes(queries, centroid_numbers, residuals, centroids, bucket_weights, bit_order)
    made_queries, one_query = padded_queries(queries, query_lengths, query_mask, None)
    documents = _documents(residuals, document_offsets, document_lengths, document_mask)
    if weights is not None:
        if tuple(weights.shape) != tuple(queries.shape[:-1]):
            raise ValueError(f"weights have shape {tuple(weights.shape)}; must be {tuple(queries.shape[:-1])}")
        weights = real_factors("weights", weights).reshape(made_queries.num_sequences, made_queries.max_tokens)
    lists = ("codes of [Nq, K, Ld] are", "there are codes of")
    pairs = pair(made_queries, documents, candidates, paired, one_query, lists)
    with_argmax = return_argmax or wants_gradient(queries, weights)
    rows = flat(made_queries)
    computed: "tuple[Tensor, Tensor]" = explained(
        lambda: operator(
            rows.rows,
            rows.mask,
            rows.lengths,
            weights,
            numbers,
            residuals,
            centroids.to(queries.dtype),
            bucket_weights.to(torch.float32),
            documents.offsets,
            documents.mask,
            documents.lengths,
            pairs.candidates,
            documents.num_sequences,
            documents.max_tokens,
            pairs.pairing,
            pairs.list_length,
            empty_score,
            normalize,
            BIT_ORDERS[bit_order],
            with_argmax,
        ),
        lambda: explain_values_of(made_queries, documents, pairs.candidates),
    )
    return as_people_see(computed, pairs, made_queries.max_tokens, return_argmax)
