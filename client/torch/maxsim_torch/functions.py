"""What people call: tensors in, scores out."""

from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from . import library
from .operators import scores

# The limits of maxsim.h.
MAX_QUERY_TOKENS = 4096
MAX_DOCUMENT_TOKENS = 65536

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class ScoresAndArgmax(NamedTuple):
    """Scores in float32, and in int32 the document token that each query token matched (-1: none)."""

    scores: Tensor
    argmax: Tensor


class _Tokens(NamedTuple):
    """Queries or documents as the operator takes them."""

    rows: Tensor
    offsets: Optional[Tensor]
    mask: Optional[Tensor]
    lengths: Optional[Tensor]
    scales: Optional[Tensor]
    num_sequences: int
    max_tokens: int


def _check_type(name: str, rows: Tensor, scales: Optional[Tensor]) -> None:
    if rows.dtype not in (*_FLOATS, torch.int8):
        raise TypeError(f"{name} have the type {rows.dtype}; it is float32, float16, bfloat16 or int8")
    if (rows.dtype == torch.int8) != (scales is not None):
        how = "without" if scales is None else "with"
        raise ValueError(f"{name} of {rows.dtype} come {how} scales; int8 alone has them")


def _indices(name: str, tensor: Tensor, shape: "tuple[int, ...]") -> Tensor:
    """An integer tensor of a certain shape, in int32 or int64."""
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} have the type {tensor.dtype}; they are integers")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} have the shape {tuple(tensor.shape)}, and not {shape}")
    return tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.to(torch.int64)


def _mask(name: str, mask: Optional[Tensor], shape: "tuple[int, ...]") -> Optional[Tensor]:
    if mask is None:
        return None
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name} has the shape {tuple(mask.shape)}, and not {shape}")
    return mask if mask.dtype == torch.bool else mask != 0


def _scales(name: str, scales: Optional[Tensor], count: int, num_rows: int) -> Optional[Tensor]:
    if scales is None:
        return None
    if scales.numel() not in (count, num_rows):
        raise ValueError(f"{name} are {scales.numel()}; there are {count} sequences and {num_rows} tokens")
    return scales.to(torch.float32).reshape(-1)


def _padded(
    name: str,
    rows: Tensor,
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    scales: Optional[Tensor],
) -> _Tokens:
    """Sequences of [..., max_tokens, dim]."""
    outer = tuple(rows.shape[:-2])
    count = 1
    for size in outer:
        count = count * size
    max_tokens = rows.shape[-2]
    if lengths is not None:
        lengths = _indices(f"{name}_lengths", lengths, outer)
    mask = _mask(f"{name}_mask", mask, (*outer, max_tokens))
    return _Tokens(
        rows, None, mask, lengths, _scales(f"{name}_scales", scales, count, count * max_tokens), count, max_tokens
    )


def _packed(
    name: str,
    rows: Tensor,
    offsets: Tensor,
    lengths: Optional[Tensor],
    mask: Optional[Tensor],
    scales: Optional[Tensor],
    max_tokens: int,
) -> _Tokens:
    """Sequences of [tokens, dim], with offsets."""
    if rows.dim() != 2:
        raise ValueError(f"{name} rows have the shape {tuple(rows.shape)}; packed ones are [tokens, dim]")
    if offsets.dim() != 1 or (lengths is None and offsets.shape[0] == 0):
        raise ValueError(f"{name}_offsets have the shape {tuple(offsets.shape)}; they are a vector")
    offsets = _indices(f"{name}_offsets", offsets, tuple(offsets.shape))
    count = offsets.shape[0] if lengths is not None else offsets.shape[0] - 1
    if lengths is not None:
        lengths = _indices(f"{name}_lengths", lengths, (count,))
        if lengths.dtype != offsets.dtype:
            offsets, lengths = offsets.to(torch.int64), lengths.to(torch.int64)
    mask = _mask(f"{name}_mask", mask, (rows.shape[0],))
    return _Tokens(
        rows, offsets, mask, lengths, _scales(f"{name}_scales", scales, count, rows.shape[0]), count, max_tokens
    )


def _score(
    queries: _Tokens,
    documents: _Tokens,
    weights: Optional[Tensor],
    candidates: Optional[Tensor],
    pairing: int,
    list_length: int,
    empty_score: float,
    return_argmax: bool,
    shape: "tuple[int, ...]",
) -> Union[Tensor, ScoresAndArgmax]:
    if queries.rows.dtype != documents.rows.dtype or queries.rows.shape[-1] != documents.rows.shape[-1]:
        raise ValueError(
            f"queries are {queries.rows.dtype} with {queries.rows.shape[-1]} columns, documents {documents.rows.dtype} "
            f"with {documents.rows.shape[-1]}; they are to have the same"
        )
    if weights is not None:
        if tuple(weights.shape) != tuple(queries.rows.shape[:-1]):
            raise ValueError(f"weights have the shape {tuple(weights.shape)}, and not {tuple(queries.rows.shape[:-1])}")
        weights = weights.to(torch.float32)
    inputs = (queries.rows, documents.rows, weights)
    differentiated = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
    if differentiated and queries.rows.dtype == torch.int8:
        raise NotImplementedError("int8 queries and documents have no gradients, those of weights included")
    values: Tensor
    argmax: Tensor
    values, argmax = scores(
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
        candidates,
        queries.num_sequences,
        documents.num_sequences,
        queries.max_tokens,
        documents.max_tokens,
        pairing,
        list_length,
        empty_score,
        return_argmax or differentiated,
    )
    values = values.reshape(shape)
    if not return_argmax:
        return values
    return ScoresAndArgmax(values, argmax.reshape((*shape, queries.max_tokens)))


def _pair(
    queries: _Tokens,
    documents: _Tokens,
    candidates: Optional[Tensor],
    paired: bool,
    one_query: bool,
) -> "tuple[Optional[Tensor], int, int, tuple[int, ...]]":
    """Returns candidates, pairing, list length and the shape of the scores, where documents are one list."""
    if paired and candidates is not None:
        raise ValueError("paired queries and documents have no candidates")
    if paired:
        if queries.num_sequences != documents.num_sequences:
            raise ValueError(f"{queries.num_sequences} queries are paired with {documents.num_sequences} documents")
        return None, library.PAIRS, 1, () if one_query else (queries.num_sequences,)
    if candidates is None:
        shape = (documents.num_sequences,) if one_query else (queries.num_sequences, documents.num_sequences)
        return None, library.ALL, documents.num_sequences, shape
    wanted = 1 if one_query else 2
    if candidates.dim() != wanted or (not one_query and candidates.shape[0] != queries.num_sequences):
        raise ValueError(
            f"candidates have the shape {tuple(candidates.shape)}; they are [documents] for one query, and "
            f"[{queries.num_sequences}, documents] for these"
        )
    candidates = _indices("candidates", candidates, tuple(candidates.shape))
    return candidates.to(torch.int64), library.LISTS, candidates.shape[-1], tuple(candidates.shape)


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
    return_argmax: bool = False,
) -> Union[Tensor, ScoresAndArgmax]:
    """MaxSim scores of padded queries and documents, in float32.

    Shapes: `queries` are [Nq, Lq, d], or one query [Lq, d], whose result has no first dimension. d is 1 to 4,096, Lq at
    most 4,096 and Ld at most 65,536.

    | `documents` | result |
    |---|---|
    | [Nd, Ld, d] | [Nq, Nd]: every query with every document |
    | [Nq, Ld, d], `paired=True` | [Nq]: each query with its document |
    | [Nd, Ld, d], `candidates` [Nq, K] of indices of documents | [Nq, K] |
    | [Nq, K, Ld, d] | [Nq, K]: K documents for each query, as in distillation |

    `query_lengths` [Nq] and `document_lengths` (the shape of `documents` without its last two dimensions) are integers:
    the tokens of each that there are. `query_mask` [Nq, Lq] and `document_mask` [..., Ld] say which tokens count; with
    both, a token counts where both say so. `weights` [Nq, Lq] are a factor for each query token.

    Queries and documents have one type: float32, float16, bfloat16, or int8 with scales, float32 and 0 or more, one for
    each sequence or one for each token. int8 values are from -127 to 127.

    A document in which no token counts has the score `empty_score`, and a query in which none does has 0. Both have no
    gradients. With `return_argmax` the result is (scores, argmax), argmax [..., Lq] in int32: the index in the document
    of the token that the query token matched, the smallest of equals, or -1.

    Gradients of queries, documents and weights come from the matches alone, in the inputs' types (int8 has none), with
    sums in float32. All results are the same bits in every run. Second derivatives are not there.

    Raises ValueError for shapes, lengths or candidates that do not fit, TypeError for other types, NotImplementedError
    for a device that this build of the library does not have. On CUDA lengths and candidates are not checked.
    """
    _check_type("queries", queries, query_scales)
    _check_type("documents", documents, document_scales)
    one_query = queries.dim() == 2
    if queries.dim() not in (2, 3):
        raise ValueError(f"queries have the shape {tuple(queries.shape)}; they are [Nq, Lq, d] or [Lq, d]")
    if documents.dim() not in (3, 4):
        raise ValueError(f"documents have the shape {tuple(documents.shape)}; they are [Nd, Ld, d] or [Nq, K, Ld, d]")
    if one_query and query_lengths is not None:
        query_lengths = query_lengths.reshape(())
    made_queries = _padded("query", queries, query_lengths, query_mask, query_scales)
    made_documents = _padded("document", documents, document_lengths, document_mask, document_scales)
    if documents.dim() == 4:
        if paired or candidates is not None:
            raise ValueError("documents of [Nq, K, Ld, d] are neither paired nor named by candidates")
        num_queries, list_length = documents.shape[:2]
        if num_queries != made_queries.num_sequences:
            raise ValueError(f"there are documents of {num_queries} queries, and {made_queries.num_sequences} queries")
        named, pairing = None, library.LISTS
        shape: "tuple[int, ...]" = (list_length,) if one_query else (num_queries, list_length)
    else:
        named, pairing, list_length, shape = _pair(made_queries, made_documents, candidates, paired, one_query)
    return _score(
        made_queries, made_documents, weights, named, pairing, list_length, empty_score, return_argmax, shape
    )


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
    """MaxSim scores of documents that follow one another in one matrix, without padding, in float32.

    `documents` are [tokens, d], and `document_offsets` [Nd + 1] (cu_seqlens, int32 or int64) say where each begins and
    the last ends. With `document_lengths` [Nd] the offsets are [Nd], and a document has that many rows from its offset
    on: documents may then lie anywhere in the matrix and overlap, such as in a model's output. A document has at most
    65,536 tokens. `document_mask` is [tokens].

    `queries` are padded as in maxsim_scores ([Nq, Lq, d] or [Lq, d]), or with `query_offsets` [Nq + 1] packed too:
    [tokens, d], `query_mask` and `weights` [tokens], and `max_query_tokens` the most that one of them has (1 to 4,096),
    which on CUDA is not checked.

    The result is [Nq, Nd] ([Nd] for one query [Lq, d]), with `paired` [Nq], with `candidates` [Nq, K]. Everything else,
    gradients included, is as in maxsim_scores; the argmax is [..., max_query_tokens].
    """
    _check_type("queries", queries, query_scales)
    _check_type("documents", documents, document_scales)
    made_documents = _packed(
        "document", documents, document_offsets, document_lengths, document_mask, document_scales, MAX_DOCUMENT_TOKENS
    )
    if query_offsets is None:
        if max_query_tokens is not None:
            raise ValueError("max_query_tokens is of packed queries, which come with query_offsets")
        one_query = queries.dim() == 2
        if queries.dim() not in (2, 3):
            raise ValueError(f"queries have the shape {tuple(queries.shape)}; they are [Nq, Lq, d] or [Lq, d]")
        if one_query and query_lengths is not None:
            query_lengths = query_lengths.reshape(())
        made_queries = _padded("query", queries, query_lengths, query_mask, query_scales)
    else:
        one_query = False
        if max_query_tokens is None or query_lengths is not None:
            raise ValueError("packed queries come with max_query_tokens, and without query_lengths")
        made_queries = _packed("query", queries, query_offsets, None, query_mask, query_scales, max_query_tokens)
    named, pairing, list_length, shape = _pair(made_queries, made_documents, candidates, paired, one_query)
    return _score(
        made_queries, made_documents, weights, named, pairing, list_length, empty_score, return_argmax, shape
    )
