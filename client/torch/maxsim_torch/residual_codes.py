"""MaxSim over documents that are stored as residual codes: libmaxsim.so's functions of residual_codes.h, the operators
torch.ops.maxsim_torch.residual_code_scores and residual_code_scores_backward, and what people call."""

import ctypes
import typing
from typing import Any, Literal, Optional, Tuple, Union, overload

import torch
from torch import Tensor

from . import library
from .functions import ScoresAndArgmax, _pair
from .operators import _INDEX_TYPES, _TYPES, _Call, _empty_results
from .tokens import MAX_DOCUMENT_TOKENS, Tokens, indices, packed, padded

# The numbers of residual_codes.h.
_BIT_ORDERS = {"colbert": 0, "low_first": 1}
_NBITS = {2: 1, 4: 2, 16: 4, 256: 8}  # by the number of bucket weights
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class ResidualCodes(ctypes.Structure):
    """The structure maxsim_residual_codes: the tokens of all documents."""

    _fields_: typing.ClassVar = [
        ("struct_size", ctypes.c_size_t),
        ("nbits", ctypes.c_int32),
        ("bit_order", ctypes.c_int32),
        ("number_type", ctypes.c_int32),
        ("normalize", ctypes.c_int32),
        ("num_centroids", ctypes.c_int64),
        ("centroid_numbers", ctypes.c_void_p),
        ("residuals", ctypes.c_void_p),
        ("centroids", ctypes.c_void_p),
        ("bucket_weights", ctypes.c_void_p),
    ]


_CALL, _CODES = ctypes.POINTER(library.Call), ctypes.POINTER(ResidualCodes)
_library = library._library
_library.maxsim_residual_codes_workspace_bytes.argtypes = [_CALL, _CODES, ctypes.POINTER(ctypes.c_size_t)]
_library.maxsim_residual_codes_forward.argtypes = [_CALL, _CODES, ctypes.c_void_p, ctypes.c_void_p]
_library.maxsim_residual_codes_backward.argtypes = [_CALL, _CODES, ctypes.POINTER(library.Gradients)]


def _workspace_bytes(call: library.Call, codes: ResidualCodes) -> int:
    needed = ctypes.c_size_t()
    library._check(
        _library.maxsim_residual_codes_workspace_bytes(ctypes.byref(call), ctypes.byref(codes), ctypes.byref(needed))
    )
    return needed.value


def _make_call(
    queries: Tensor,
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    weights: Optional[Tensor],
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    num_documents: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    empty_score: float,
    normalize: bool,
    bit_order: int,
) -> "tuple[_Call, ResidualCodes]":
    """The structures of a call. Arguments are those of the operator."""
    made = _Call(pairing, list_length, empty_score, queries.device)
    per_sequence = library.SCALE_A_SEQUENCE
    made.call.queries = made.tokens(
        queries, None, query_lengths, query_mask, None, per_sequence, queries.shape[0], queries.shape[1]
    )
    documents = library.Tokens(struct_size=ctypes.sizeof(library.Tokens))
    if document_offsets is None:
        documents.layout = library.PADDED
    else:
        documents.layout = library.PACKED if document_lengths is None else library.SCATTERED
    documents.type = _TYPES[queries.dtype]
    documents.dim = queries.shape[-1]
    index = document_offsets if document_offsets is not None else document_lengths
    documents.index_type = _INDEX_TYPES[index.dtype] if index is not None else library.INT64
    documents.num_sequences = num_documents
    documents.max_tokens = max_document_tokens
    documents.num_rows = centroid_numbers.numel()
    documents.offsets = made.address(document_offsets)
    documents.lengths = made.address(document_lengths)
    documents.mask = made.address(document_mask)
    made.call.documents = ctypes.pointer(documents)
    made.call.weights = made.address(weights)
    made.call.candidates = made.address(candidates)
    codes = ResidualCodes(struct_size=ctypes.sizeof(ResidualCodes))
    codes.nbits = _NBITS[bucket_weights.numel()]
    codes.bit_order = bit_order
    codes.number_type = _INDEX_TYPES[centroid_numbers.dtype]
    codes.normalize = int(normalize)
    codes.num_centroids = centroids.shape[0]
    codes.centroid_numbers = made.address(centroid_numbers)
    codes.residuals = made.address(residuals)
    codes.centroids = made.address(centroids)
    codes.bucket_weights = made.address(bucket_weights)
    return made, codes


@torch.library.custom_op("maxsim_torch::residual_code_scores", mutates_args=())
def _scores(
    queries: Tensor,
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    weights: Optional[Tensor],
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    num_documents: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    empty_score: float,
    normalize: bool,
    bit_order: int,
    with_argmax: bool,
) -> Tuple[Tensor, Tensor]:
    """maxsim_residual_codes_forward: scores [Nq, list_length] in float32, and with_argmax the matches [Nq, list_length,
    Lq] in int32, which are empty otherwise. `queries` are [Nq, Lq, d], and centroids of their type."""
    result, argmax = _empty_results(queries, queries.shape[0], list_length, queries.shape[1], with_argmax)
    made, codes = _make_call(
        queries,
        query_mask,
        query_lengths,
        weights,
        centroid_numbers,
        residuals,
        centroids,
        bucket_weights,
        document_offsets,
        document_mask,
        document_lengths,
        candidates,
        num_documents,
        max_document_tokens,
        pairing,
        list_length,
        empty_score,
        normalize,
        bit_order,
    )
    with made.with_workspace_of(lambda: _workspace_bytes(made.call, codes)):
        library._check(
            _library.maxsim_residual_codes_forward(
                ctypes.byref(made.call),
                ctypes.byref(codes),
                result.data_ptr(),
                argmax.data_ptr() if with_argmax else None,
            )
        )
    return result, argmax


@_scores.register_fake
def _scores_fake(  # type: ignore[no-untyped-def]
    queries,
    query_mask,
    query_lengths,
    weights,
    centroid_numbers,
    residuals,
    centroids,
    bucket_weights,
    document_offsets,
    document_mask,
    document_lengths,
    candidates,
    num_documents,
    max_document_tokens,
    pairing,
    list_length,
    empty_score,
    normalize,
    bit_order,
    with_argmax,
):
    return _empty_results(queries, queries.shape[0], list_length, queries.shape[1], with_argmax)


@torch.library.custom_op("maxsim_torch::residual_code_scores_backward", mutates_args=())
def _scores_backward(
    score_gradients: Tensor,
    argmax: Tensor,
    queries: Tensor,
    query_mask: Optional[Tensor],
    query_lengths: Optional[Tensor],
    weights: Optional[Tensor],
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    document_offsets: Optional[Tensor],
    document_mask: Optional[Tensor],
    document_lengths: Optional[Tensor],
    candidates: Optional[Tensor],
    num_documents: int,
    max_document_tokens: int,
    pairing: int,
    list_length: int,
    normalize: bool,
    bit_order: int,
    of_queries: bool,
    of_weights: bool,
) -> Tuple[Tensor, Tensor]:
    """maxsim_residual_codes_backward: the gradients of queries and weights, empty where they are not asked for."""
    made, codes = _make_call(
        queries,
        query_mask,
        query_lengths,
        weights,
        centroid_numbers,
        residuals,
        centroids,
        bucket_weights,
        document_offsets,
        document_mask,
        document_lengths,
        candidates,
        num_documents,
        max_document_tokens,
        pairing,
        list_length,
        0.0,
        normalize,
        bit_order,
    )
    results = _empty_gradients(queries, weights, of_queries, of_weights)
    gradients = library.Gradients(struct_size=ctypes.sizeof(library.Gradients))
    gradients.argmax = made.address(argmax)
    gradients.score_gradients = made.address(score_gradients)
    gradients.query_gradients = results[0].data_ptr() if of_queries else None
    gradients.weight_gradients = results[1].data_ptr() if of_weights else None
    with made.with_workspace_of(lambda: 0):
        library._check(
            _library.maxsim_residual_codes_backward(
                ctypes.byref(made.call), ctypes.byref(codes), ctypes.byref(gradients)
            )
        )
    return results


def _empty_gradients(
    queries: Tensor, weights: Optional[Tensor], of_queries: bool, of_weights: bool
) -> Tuple[Tensor, Tensor]:
    """Memory for what `residual_code_scores_backward` returns."""
    weight_shape = weights.shape if weights is not None and of_weights else (0,)
    return (
        queries.new_empty(queries.shape if of_queries else (0,)),
        queries.new_empty(weight_shape, dtype=torch.float32),
    )


@_scores_backward.register_fake
def _scores_backward_fake(  # type: ignore[no-untyped-def]
    score_gradients,
    argmax,
    queries,
    query_mask,
    query_lengths,
    weights,
    centroid_numbers,
    residuals,
    centroids,
    bucket_weights,
    document_offsets,
    document_mask,
    document_lengths,
    candidates,
    num_documents,
    max_document_tokens,
    pairing,
    list_length,
    normalize,
    bit_order,
    of_queries,
    of_weights,
):
    return _empty_gradients(queries, weights, of_queries, of_weights)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    if not inputs[19]:
        return
    ctx.save_for_backward(output[1], *inputs[:12])
    ctx.numbers = (*inputs[12:16], *inputs[17:19])


def _differentiate(ctx: Any, score_gradients: Tensor, _: Any) -> Any:
    if not hasattr(ctx, "numbers"):
        raise RuntimeError("maxsim_torch::residual_code_scores was called without with_argmax, and has no gradients")
    of_queries, of_weights = ctx.needs_input_grad[0], ctx.needs_input_grad[3]
    gradients = _scores_backward(score_gradients, *ctx.saved_tensors, *ctx.numbers, of_queries, of_weights)
    results: "list[Optional[Tensor]]" = [None] * 20
    if of_queries:
        results[0] = gradients[0]
    if of_weights:
        results[3] = gradients[1]
    return tuple(results)


_scores.register_autograd(_differentiate, setup_context=_save)


def _check_codes(
    queries: Tensor,
    centroid_numbers: Tensor,
    residuals: Tensor,
    centroids: Tensor,
    bucket_weights: Tensor,
    bit_order: str,
) -> Tensor:
    """Refuses codes that do not fit together. Returns the centroid numbers in int32 or int64."""
    if queries.dtype not in _FLOATS:
        raise TypeError(f"queries have the type {queries.dtype}; it is float32, float16 or bfloat16")
    if queries.dim() not in (2, 3):
        raise ValueError(f"queries have the shape {tuple(queries.shape)}; they are [Nq, Lq, d] or [Lq, d]")
    dim = queries.shape[-1]
    if centroids.dim() != 2 or centroids.shape[1] != dim or not centroids.is_floating_point():
        raise ValueError(
            f"centroids are {centroids.dtype} {tuple(centroids.shape)}; they are floats [centroids, {dim}], as wide as "
            "the queries"
        )
    if bucket_weights.dim() != 1 or bucket_weights.numel() not in _NBITS or not bucket_weights.is_floating_point():
        raise ValueError(
            f"bucket_weights are {bucket_weights.dtype} {tuple(bucket_weights.shape)}; they are 2, 4, 16 or 256 floats"
        )
    nbits = _NBITS[bucket_weights.numel()]
    if dim * nbits % 8 != 0:
        raise ValueError(f"queries have {dim} columns; with {nbits} bits a value it is a multiple of {8 // nbits}")
    wanted = (*centroid_numbers.shape, dim * nbits // 8)
    if residuals.dtype != torch.uint8 or tuple(residuals.shape) != wanted:
        raise ValueError(f"residuals are {residuals.dtype} {tuple(residuals.shape)}, and not torch.uint8 {wanted}")
    if bit_order not in _BIT_ORDERS:
        raise ValueError(f'bit_order is {bit_order!r}; it is "colbert" or "low_first"')
    for name, tensor in (("centroids", centroids), ("bucket_weights", bucket_weights)):
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise NotImplementedError(f"{name} require a gradient, and residual codes have none")
    return indices("centroid_numbers", centroid_numbers, tuple(centroid_numbers.shape))


def _documents(
    residuals: Tensor, offsets: Optional[Tensor], lengths: Optional[Tensor], mask: Optional[Tensor]
) -> Tokens:
    if offsets is not None:
        return packed("document", residuals, offsets, lengths, mask, None, MAX_DOCUMENT_TOKENS)
    if residuals.dim() not in (3, 4):
        raise ValueError(
            f"centroid_numbers have the shape {tuple(residuals.shape[:-1])}; without document_offsets they are "
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
    """MaxSim scores, in float32, of documents that are stored as residual codes, such as an index of ColBERTv2, PLAID or
    fast-plaid has them (Santhanam et al., 2022). They are decoded where they are multiplied: the matrix of their vectors
    is never written.

    queries: [Nq, Lq, d], or one query [Lq, d], in float32, float16 or bfloat16.
    centroid_numbers: integers, the centroid of each document token: [Nd, Ld]; [Nq, K, Ld], a list for each query; or
        with `document_offsets` [tokens].
    residuals: uint8 [..., d * nbits / 8], a packed bucket for each column of each token.
    centroids: [C, d]. bucket_weights: [2^nbits], which say nbits: 1, 2, 4 or 8.
    document_offsets: [Nd + 1] (cu_seqlens) of documents that follow one another, or with `document_lengths` [Nd], of
        documents anywhere among the tokens.

    A token's vector is the sum of its centroid and of the weight of each column's bucket, and with `normalize` that
    divided by its norm. Centroids, weights and sums are rounded to the type of the queries; everything else is float32.
    Queries are taken as they are. `bit_order` is "colbert", as those indexes have it, or "low_first", where the first
    column has the lowest bits of a byte: see decompress_residual_codes.

    The result is [Nq, Nd] ([Nd] for one query), with `paired` [Nq], with `candidates` [Nq, K] of indices of documents,
    or with a list for each query, [Nq, K]. Lengths, masks, `weights`, `empty_score` and `return_argmax` are those of
    maxsim_scores and maxsim_scores_packed.

    Queries and weights have gradients, which come from the matches alone; documents are frozen. Results are the same
    bits in every run.

    Raises ValueError for what does not fit together, TypeError for other types, NotImplementedError for a device that
    the library does not have and for gradients that there are none of. A centroid number outside of the centroids is a
    ValueError on the CPU; on CUDA it is not checked, and its scores mean nothing.
    """
    numbers = _check_codes(queries, centroid_numbers, residuals, centroids, bucket_weights, bit_order)
    one_query = queries.dim() == 2
    if one_query:
        queries = queries.unsqueeze(0)
        query_lengths = None if query_lengths is None else query_lengths.reshape(1)
        query_mask = None if query_mask is None else query_mask.unsqueeze(0)
        weights = None if weights is None else weights.unsqueeze(0)
    made_queries = padded("query", queries, query_lengths, query_mask, None)
    documents = _documents(residuals, document_offsets, document_lengths, document_mask)
    if weights is not None:
        if tuple(weights.shape) != tuple(queries.shape[:2]):
            raise ValueError(f"weights have the shape {tuple(weights.shape)}, and not {tuple(queries.shape[:2])}")
        weights = weights.to(torch.float32)
    if residuals.dim() == 4:
        if paired or candidates is not None:
            raise ValueError("codes of [Nq, K, Ld] are neither paired nor named by candidates")
        if residuals.shape[0] != queries.shape[0]:
            raise ValueError(f"there are codes of {residuals.shape[0]} queries, and {queries.shape[0]} queries")
        named, pairing, list_length = None, library.LISTS, residuals.shape[1]
        shape: "tuple[int, ...]" = (list_length,) if one_query else (queries.shape[0], list_length)
    else:
        named, pairing, list_length, shape = _pair(made_queries, documents, candidates, paired, one_query)
    differentiated = torch.is_grad_enabled() and (
        queries.requires_grad or (weights is not None and weights.requires_grad)
    )
    values: Tensor
    argmax: Tensor
    values, argmax = _scores(
        queries,
        made_queries.mask,
        made_queries.lengths,
        weights,
        numbers,
        residuals,
        centroids.to(queries.dtype),
        bucket_weights.to(torch.float32),
        documents.offsets,
        documents.mask,
        documents.lengths,
        named,
        documents.num_sequences,
        documents.max_tokens,
        pairing,
        list_length,
        empty_score,
        normalize,
        _BIT_ORDERS[bit_order],
        return_argmax or differentiated,
    )
    values = values.reshape(shape)
    if not return_argmax:
        return values
    return ScoresAndArgmax(values, argmax.reshape((*shape, queries.shape[1])))
