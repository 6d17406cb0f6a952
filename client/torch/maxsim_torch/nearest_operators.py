"""The functions of nearest.h (kernels/library/include/maxsim/nearest.h), and the operators
torch.ops.maxsim_torch.nearest and nearest_backward. nearest.py has the public functions."""

import ctypes
import typing
from typing import NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import library
from .call_memory import TYPES, CallMemory, index_type
from .direct_calls import empty_gradients, operator


class _NearestCall(ctypes.Structure):
    """The structure maxsim_nearest_call: a batch of pairs of sets of points."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.int32s("device", "type", "dim", "index_type"),
        *library.int64s("num_sets", "max_x", "max_y"),
        *library.pointers("x", "y", "x_lengths", "y_lengths"),
        *library.int32s("num_threads", "reserved"),
        *library.WORKSPACE,
    ]


class _NearestGradients(ctypes.Structure):
    """The structure maxsim_nearest_gradients: what maxsim_nearest_backward takes and writes."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.pointers("argmin", "distance_gradients", "x_gradients", "y_gradients"),
    ]


_PASSES = library.Passes("maxsim_nearest", _NearestCall, _NearestGradients)


class Sets(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.nearest."""

    x: Tensor
    y: Tensor
    x_lengths: Optional[Tensor]
    y_lengths: Optional[Tensor]


def _call(inputs: Sets) -> CallMemory:
    x, y, x_lengths, y_lengths = inputs
    made = CallMemory(_NearestCall, x.device)
    made.call.type = TYPES[x.dtype]
    made.call.num_sets, made.call.max_x, made.call.dim = x.shape
    made.call.max_y = y.shape[1]
    made.call.index_type = index_type(x_lengths, y_lengths)
    made.take(inputs)
    return made


def _empty_results(inputs: Sets) -> Tuple[Tensor, Tensor]:
    x = inputs.x
    return x.new_empty(x.shape[:2], dtype=torch.float32), x.new_empty(x.shape[:2], dtype=torch.int32)


@operator("nearest", _empty_results)
def nearest(inputs: Sets) -> Tuple[Tensor, Tensor]:
    """Calls maxsim_nearest for x [sets, N, d] and y [sets, M, d] of one type. Returns squared distances [sets, N] in
    float32 and the argmin [sets, N] in int32. Lengths [sets] are both int32 or both int64."""
    results = _empty_results(inputs)
    _call(inputs).forward(_PASSES, results)
    return results


@nearest.gradients(of=("x", "y"), without={})
def nearest_backward(
    inputs: Sets, asked: Sequence[bool], distance_gradients: Tensor, argmin: Tensor
) -> "Tuple[Tensor, ...]":
    """Calls maxsim_nearest_backward. Returns the gradients of x and y in their types and shapes."""
    results = empty_gradients(inputs[:2], asked)
    _call(inputs).backward(_PASSES, (argmin, distance_gradients), results, with_workspace=asked[1])
    return results
