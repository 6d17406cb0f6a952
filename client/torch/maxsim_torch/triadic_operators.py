"""torch.ops.maxsim_torch.triadic, triadic_max and their backward passes: operators of the third order, for PyTorch.
triadic.py has what people call."""

import ctypes
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from . import library, library_triadic
from .call_memory import INDEX_TYPES, TYPES, CallMemory
from .direct_calls import operator


def _index_type(*lengths: Optional[Tensor]) -> int:
    """The type of lengths, which is one for all that are there."""
    for tensor in lengths:
        if tensor is not None:
            return INDEX_TYPES[tensor.dtype]
    return library.INT64


def _forward_bytes(call: Any) -> int:
    return library_triadic.workspace_bytes(call, library.FORWARD)


def _backward_bytes(call: Any) -> int:
    return library_triadic.workspace_bytes(call, library.BACKWARD)


def _empty_gradients(tensors: "tuple[Tensor, ...]", asked: "list[bool]") -> "tuple[Tensor, ...]":
    """Memory for gradients; those that are not asked for are empty."""
    return tuple(tensor.new_empty(tensor.shape if wanted else (0,)) for tensor, wanted in zip(tensors, asked))


def _addresses(gradients: "tuple[Tensor, ...]", asked: "list[bool]") -> "list[Optional[int]]":
    return [gradient.data_ptr() if wanted else None for gradient, wanted in zip(gradients, asked)]


def _make_call(
    queries: Tensor,
    first_keys: Tensor,
    second_keys: Tensor,
    first_values: Tensor,
    second_values: Tensor,
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
    scale: float,
) -> CallMemory:
    made = CallMemory(library_triadic.TriadicCall, queries.device)
    call = made.call
    call.type = TYPES[queries.dtype]
    call.num_problems, call.num_queries, call.dim = queries.shape
    call.max_first, call.max_second = first_keys.shape[1], second_keys.shape[1]
    call.index_type = _index_type(first_lengths, second_lengths)
    call.queries = made.address(queries)
    call.first_keys, call.second_keys = made.address(first_keys), made.address(second_keys)
    call.first_values, call.second_values = made.address(first_values), made.address(second_values)
    call.first_lengths, call.second_lengths = made.address(first_lengths), made.address(second_lengths)
    call.scale = scale
    return made


def _empty_output(queries: Tensor) -> Tuple[Tensor, Tensor]:
    return queries.new_empty(queries.shape), queries.new_empty(queries.shape[:2], dtype=torch.float32)


@operator("triadic")
def triadic(
    queries: Tensor,
    first_keys: Tensor,
    second_keys: Tensor,
    first_values: Tensor,
    second_values: Tensor,
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
    scale: float,
) -> Tuple[Tensor, Tensor]:
    """maxsim_triadic: queries [problems, n, d], keys and values [problems, m, d] of one type give the output [problems,
    n, d] in it, and the lse [problems, n] in float32. Lengths [problems] are both int32 or both int64."""
    output, lse = _empty_output(queries)
    made = _make_call(
        queries, first_keys, second_keys, first_values, second_values, first_lengths, second_lengths, scale
    )
    made.compute(library_triadic.forward, output.data_ptr(), lse.data_ptr(), bytes_of=_forward_bytes)
    return output, lse


@triadic.register_fake
def _triadic_fake(  # type: ignore[no-untyped-def]
    queries, first_keys, second_keys, first_values, second_values, first_lengths, second_lengths, scale
):
    return _empty_output(queries)


@operator("triadic_backward")
def triadic_backward(
    output_gradients: Tensor,
    output: Tensor,
    lse: Tensor,
    queries: Tensor,
    first_keys: Tensor,
    second_keys: Tensor,
    first_values: Tensor,
    second_values: Tensor,
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
    scale: float,
    asked: List[bool],
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """maxsim_triadic_backward: the gradients of queries, keys and values; those that are not asked for are empty."""
    made = _make_call(
        queries, first_keys, second_keys, first_values, second_values, first_lengths, second_lengths, scale
    )
    results = _empty_gradients((queries, first_keys, second_keys, first_values, second_values), asked)
    gradients = library_triadic.TriadicGradients(struct_size=ctypes.sizeof(library_triadic.TriadicGradients))
    gradients.output = made.address(output)
    gradients.lse = made.address(lse)
    gradients.output_gradients = made.address(output_gradients)
    (
        gradients.query_gradients,
        gradients.first_key_gradients,
        gradients.second_key_gradients,
        gradients.first_value_gradients,
        gradients.second_value_gradients,
    ) = _addresses(results, asked)
    made.compute(library_triadic.backward, gradients, bytes_of=_backward_bytes)
    return results  # type: ignore[return-value]


@triadic_backward.register_fake
def _triadic_backward_fake(  # type: ignore[no-untyped-def]
    output_gradients,
    output,
    lse,
    queries,
    first_keys,
    second_keys,
    first_values,
    second_values,
    first_lengths,
    second_lengths,
    scale,
    asked,
):
    return _empty_gradients((queries, first_keys, second_keys, first_values, second_values), asked)


def _save_triadic(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*output, *inputs[:7])
    ctx.scale = inputs[7]


def _differentiate_triadic(ctx: Any, output_gradients: Tensor, _: Any) -> Any:
    asked = list(ctx.needs_input_grad[:5])
    gradients = triadic_backward(output_gradients, *ctx.saved_tensors, ctx.scale, asked)
    return (*(gradient if wanted else None for gradient, wanted in zip(gradients, asked)), None, None, None)


triadic.register_autograd(_differentiate_triadic, setup_context=_save_triadic)


def _make_max_call(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    query_lengths: Optional[Tensor],
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
) -> CallMemory:
    made = CallMemory(library_triadic.TriadicMaxCall, queries.device)
    call = made.call
    call.type = TYPES[queries.dtype]
    call.num_problems, call.max_queries, call.dim = queries.shape
    call.max_first, call.max_second = first.shape[1], second.shape[1]
    call.index_type = _index_type(query_lengths, first_lengths, second_lengths)
    call.queries, call.first, call.second = made.address(queries), made.address(first), made.address(second)
    call.query_lengths = made.address(query_lengths)
    call.first_lengths, call.second_lengths = made.address(first_lengths), made.address(second_lengths)
    return made


def _empty_maxima(queries: Tensor) -> Tuple[Tensor, Tensor]:
    shape = queries.shape[:2]
    return queries.new_empty(shape, dtype=torch.float32), queries.new_empty((*shape, 2), dtype=torch.int32)


@operator("triadic_max")
def triadic_max(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    query_lengths: Optional[Tensor],
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
) -> Tuple[Tensor, Tensor]:
    """maxsim_triadic_max: queries [problems, n, d], first and second [problems, m, d] of one type give maxima
    [problems, n] in float32 and the argmax [problems, n, 2] in int32. Lengths [problems] are all int32 or all int64."""
    maxima, argmax = _empty_maxima(queries)
    made = _make_max_call(queries, first, second, query_lengths, first_lengths, second_lengths)
    made.compute(library_triadic.forward, maxima.data_ptr(), argmax.data_ptr(), bytes_of=_forward_bytes)
    return maxima, argmax


@triadic_max.register_fake
def _triadic_max_fake(  # type: ignore[no-untyped-def]
    queries, first, second, query_lengths, first_lengths, second_lengths
):
    return _empty_maxima(queries)


@operator("triadic_max_backward")
def triadic_max_backward(
    maximum_gradients: Tensor,
    argmax: Tensor,
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    query_lengths: Optional[Tensor],
    first_lengths: Optional[Tensor],
    second_lengths: Optional[Tensor],
    asked: List[bool],
) -> Tuple[Tensor, Tensor, Tensor]:
    """maxsim_triadic_max_backward: the gradients of queries, first and second; those not asked for are empty."""
    made = _make_max_call(queries, first, second, query_lengths, first_lengths, second_lengths)
    results = _empty_gradients((queries, first, second), asked)
    gradients = library_triadic.TriadicMaxGradients(struct_size=ctypes.sizeof(library_triadic.TriadicMaxGradients))
    gradients.argmax = made.address(argmax)
    gradients.maximum_gradients = made.address(maximum_gradients)
    gradients.query_gradients, gradients.first_gradients, gradients.second_gradients = _addresses(results, asked)
    made.compute(library_triadic.backward, gradients, bytes_of=_backward_bytes)
    return results  # type: ignore[return-value]


@triadic_max_backward.register_fake
def _triadic_max_backward_fake(  # type: ignore[no-untyped-def]
    maximum_gradients, argmax, queries, first, second, query_lengths, first_lengths, second_lengths, asked
):
    return _empty_gradients((queries, first, second), asked)


def _save_max(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *inputs)


def _differentiate_max(ctx: Any, maximum_gradients: Tensor, _: Any) -> Any:
    asked = list(ctx.needs_input_grad[:3])
    gradients = triadic_max_backward(maximum_gradients, *ctx.saved_tensors, asked)
    return (*(gradient if wanted else None for gradient, wanted in zip(gradients, asked)), None, None, None)


triadic_max.register_autograd(_differentiate_max, setup_context=_save_max)
