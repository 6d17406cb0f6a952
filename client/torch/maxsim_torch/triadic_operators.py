"""Calls the functions of triadic.h (kernels/library/include/maxsim/triadic.h), and defines the PyTorch operators
torch.ops.maxsim_torch.triadic and triadic_max with their backward passes. The public functions are in triadic.py."""

import ctypes
import typing
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import TYPES, CallMemory, index_type
from .direct_calls import empty_gradients, operator


class _TriadicCall(ctypes.Structure):
    """The structure maxsim_triadic_call: a batch of three-way attentions."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.int32s("device", "type", "dim", "index_type"),
        *library.int64s("num_problems", "num_queries", "max_first", "max_second"),
        *library.pointers("queries", "first_keys", "second_keys", "first_values", "second_values"),
        *library.pointers("first_lengths", "second_lengths"),
        ("scale", ctypes.c_float),
        *library.int32s("num_threads"),
        *library.WORKSPACE,
    ]


class _TriadicGradients(ctypes.Structure):
    """The structure maxsim_triadic_gradients: what maxsim_triadic_backward takes and writes."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.pointers("output", "lse", "output_gradients"),
        *library.pointers("query_gradients", "first_key_gradients", "second_key_gradients"),
        *library.pointers("first_value_gradients", "second_value_gradients"),
    ]


class _TriadicMaxCall(ctypes.Structure):
    """The structure maxsim_triadic_max_call: a batch of three-way MaxSims."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.int32s("device", "type", "dim", "index_type"),
        *library.int64s("num_problems", "max_queries", "max_first", "max_second"),
        *library.pointers("queries", "first", "second", "query_lengths", "first_lengths", "second_lengths"),
        *library.int32s("num_threads", "reserved"),
        *library.WORKSPACE,
    ]


class _TriadicMaxGradients(ctypes.Structure):
    """The structure maxsim_triadic_max_gradients: what maxsim_triadic_max_backward takes and writes."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.pointers("argmax", "maximum_gradients", "query_gradients", "first_gradients", "second_gradients"),
    ]


_PASSES = library.Passes("maxsim_triadic", _TriadicCall, _TriadicGradients)
_MAX_PASSES = library.Passes("maxsim_triadic_max", _TriadicMaxCall, _TriadicMaxGradients)


class Attention(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.triadic."""

    queries: Tensor
    first_keys: Tensor
    second_keys: Tensor
    first_values: Tensor
    second_values: Tensor
    first_lengths: Optional[Tensor]
    second_lengths: Optional[Tensor]
    scale: float


class Triples(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.triadic_max."""

    queries: Tensor
    first: Tensor
    second: Tensor
    query_lengths: Optional[Tensor]
    first_lengths: Optional[Tensor]
    second_lengths: Optional[Tensor]


def _call(inputs: Attention) -> CallMemory:
    made = CallMemory(_TriadicCall, inputs.queries.device)
    made.call.type = TYPES[inputs.queries.dtype]
    made.call.num_problems, made.call.num_queries, made.call.dim = inputs.queries.shape
    made.call.max_first, made.call.max_second = inputs.first_keys.shape[1], inputs.second_keys.shape[1]
    made.call.index_type = index_type(inputs.first_lengths, inputs.second_lengths)
    made.take(inputs)
    return made


def _max_call(inputs: Triples) -> CallMemory:
    made = CallMemory(_TriadicMaxCall, inputs.queries.device)
    made.call.type = TYPES[inputs.queries.dtype]
    made.call.num_problems, made.call.max_queries, made.call.dim = inputs.queries.shape
    made.call.max_first, made.call.max_second = inputs.first.shape[1], inputs.second.shape[1]
    made.call.index_type = index_type(*inputs[3:])
    made.take(inputs)
    return made


def _empty_output(inputs: Attention) -> Tuple[Tensor, Tensor]:
    queries = inputs.queries
    return queries.new_empty(queries.shape), queries.new_empty(queries.shape[:2], dtype=torch.float32)


@operator("triadic", _empty_output)
def triadic(inputs: Attention) -> Tuple[Tensor, Tensor]:
    """Calls maxsim_triadic. Queries [problems, n, d], and keys and values [problems, m, d], have one type. Returns the
    output [problems, n, d] in this type, and the log-sum-exp [problems, n] in float32. Lengths [problems] are all int32
    or all int64."""
    results = _empty_output(inputs)
    _call(inputs).forward(_PASSES, results)
    return results


@triadic.gradients(of=Attention._fields[:5], without={})
def triadic_backward(
    inputs: Attention, asked: List[bool], output_gradients: Tensor, output: Tensor, lse: Tensor
) -> "Tuple[Tensor, ...]":
    """maxsim_triadic_backward: the gradients of queries, keys and values."""
    results = empty_gradients(inputs[:5], asked)
    _call(inputs).backward(_PASSES, (output, lse, output_gradients), results)
    return results


def _empty_maxima(inputs: Triples) -> Tuple[Tensor, Tensor]:
    queries, shape = inputs.queries, inputs.queries.shape[:2]
    return queries.new_empty(shape, dtype=torch.float32), queries.new_empty((*shape, 2), dtype=torch.int32)


@operator("triadic_max", _empty_maxima)
def triadic_max(inputs: Triples) -> Tuple[Tensor, Tensor]:
    """Calls maxsim_triadic_max. Queries [problems, n, d], first and second [problems, m, d] have one type. Returns
    maxima [problems, n] in float32 and the argmax [problems, n, 2] in int32. Lengths [problems] are all int32 or all
    int64."""
    results = _empty_maxima(inputs)
    _max_call(inputs).forward(_MAX_PASSES, results)
    return results


@triadic_max.gradients(of=Triples._fields[:3], without={})
def triadic_max_backward(
    inputs: Triples, asked: List[bool], maximum_gradients: Tensor, argmax: Tensor
) -> "Tuple[Tensor, ...]":
    """maxsim_triadic_max_backward: the gradients of queries, first and second."""
    results = empty_gradients(inputs[:3], asked)
    _max_call(inputs).backward(_MAX_PASSES, (argmax, maximum_gradients), results)
    return results
