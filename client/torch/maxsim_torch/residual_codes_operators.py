"""libmaxsim.so's functions of residual_codes.h, and the operators torch.ops.maxsim_torch.residual_code_scores and
residual_code_scores_backward. residual_codes.py has what people call."""

import ctypes
import typing
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import INDEX_TYPES, TYPES
from .direct_calls import operator
from .operators import Call, empty_results

# The numbers of residual_codes.h.
BIT_ORDERS = {"colbert": 0, "low_first": 1}
NBITS = {2: 1, 4: 2, 16: 4, 256: 8}  # by the number of bucket weights


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
_size = library.loaded("maxsim_residual_codes_workspace_bytes", [_CALL, _CODES, ctypes.POINTER(ctypes.c_size_t)])
_forward_pass = library.loaded("maxsim_residual_codes_forward", [_CALL, _CODES, ctypes.c_void_p, ctypes.c_void_p])
_backward_pass = library.loaded("maxsim_residual_codes_backward", [_CALL, _CODES, ctypes.POINTER(library.Gradients)])


def _workspace_bytes(call: library.Call, codes: ResidualCodes) -> int:
    return library.size_from(_size, ctypes.byref(call), ctypes.byref(codes))


def _forward(call: library.Call, codes: ResidualCodes, scores: int, argmax: Optional[int]) -> None:
    library.check(_forward_pass(ctypes.byref(call), ctypes.byref(codes), scores, argmax))


def _backward(call: library.Call, codes: ResidualCodes, gradients: library.Gradients) -> None:
    library.check(_backward_pass(ctypes.byref(call), ctypes.byref(codes), ctypes.byref(gradients)))


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
) -> "tuple[Call, ResidualCodes]":
    """The structures of a call. Arguments are those of the operator."""
    made = Call(pairing, list_length, empty_score, queries.device)
    per_sequence = library.SCALE_A_SEQUENCE
    made.call.queries = made.tokens(
        queries, None, query_lengths, query_mask, None, per_sequence, queries.shape[0], queries.shape[1]
    )
    documents = library.Tokens(struct_size=ctypes.sizeof(library.Tokens))
    if document_offsets is None:
        documents.layout = library.PADDED
    else:
        documents.layout = library.PACKED if document_lengths is None else library.SCATTERED
    documents.type = TYPES[queries.dtype]
    documents.dim = queries.shape[-1]
    index = document_offsets if document_offsets is not None else document_lengths
    documents.index_type = INDEX_TYPES[index.dtype] if index is not None else library.INT64
    documents.num_sequences = num_documents
    documents.max_tokens = max_document_tokens
    documents.num_rows = centroid_numbers.numel()
    documents.offsets = made.address(document_offsets)
    documents.lengths = made.address(document_lengths)
    documents.mask = made.address(document_mask)
    made.call.documents = made.address_of(documents)
    made.call.weights = made.address(weights)
    made.take_candidates(candidates)
    codes = ResidualCodes(struct_size=ctypes.sizeof(ResidualCodes))
    codes.nbits = NBITS[bucket_weights.numel()]
    codes.bit_order = bit_order
    codes.number_type = INDEX_TYPES[centroid_numbers.dtype]
    codes.normalize = int(normalize)
    codes.num_centroids = centroids.shape[0]
    codes.centroid_numbers = made.address(centroid_numbers)
    codes.residuals = made.address(residuals)
    codes.centroids = made.address(centroids)
    codes.bucket_weights = made.address(bucket_weights)
    return made, codes


@operator("residual_code_scores")
def residual_code_scores(
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
    result, argmax = empty_results(queries, queries.shape[0], list_length, queries.shape[1], with_argmax)
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
    made.compute(
        _forward,
        codes,
        result.data_ptr(),
        argmax.data_ptr() if with_argmax else None,
        bytes_of=lambda call: _workspace_bytes(call, codes),
    )
    return result, argmax


@residual_code_scores.register_fake
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
    return empty_results(queries, queries.shape[0], list_length, queries.shape[1], with_argmax)


@operator("residual_code_scores_backward")
def residual_code_scores_backward(
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
    made.compute(_backward, codes, gradients, bytes_of=lambda _: 0)
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


@residual_code_scores_backward.register_fake
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
    gradients = residual_code_scores_backward(score_gradients, *ctx.saved_tensors, *ctx.numbers, of_queries, of_weights)
    results: "list[Optional[Tensor]]" = [None] * 20
    if of_queries:
        results[0] = gradients[0]
    if of_weights:
        results[3] = gradients[1]
    return tuple(results)


residual_code_scores.register_autograd(_differentiate, setup_context=_save)
