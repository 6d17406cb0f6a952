"""torch.ops.maxsim_torch.nearest and nearest_backward: nearest points of sets, for PyTorch. nearest.py has what people
call."""

import ctypes
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import library, library_nearest
from .call_memory import INDEX_TYPES, TYPES, CallMemory
from .direct_calls import operator


def _make_call(x: Tensor, y: Tensor, x_lengths: Optional[Tensor], y_lengths: Optional[Tensor]) -> CallMemory:
    made = CallMemory(library_nearest.NearestCall, x.device)
    made.call.type = TYPES[x.dtype]
    made.call.dim = x.shape[2]
    lengths = x_lengths if x_lengths is not None else y_lengths
    made.call.index_type = library.INT64 if lengths is None else INDEX_TYPES[lengths.dtype]
    made.call.num_sets, made.call.max_x, made.call.max_y = x.shape[0], x.shape[1], y.shape[1]
    made.call.x, made.call.y = made.address(x), made.address(y)
    made.call.x_lengths, made.call.y_lengths = made.address(x_lengths), made.address(y_lengths)
    return made


def _empty_results(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[:2], dtype=torch.float32), x.new_empty(x.shape[:2], dtype=torch.int32)


@operator("nearest")
def nearest(x: Tensor, y: Tensor, x_lengths: Optional[Tensor], y_lengths: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """maxsim_nearest: x [sets, N, d] and y [sets, M, d] of one type give squared distances [sets, N] in float32 and the
    argmin [sets, N] in int32. Lengths [sets] are both int32 or both int64."""
    distances, argmin = _empty_results(x)
    made = _make_call(x, y, x_lengths, y_lengths)
    made.compute(
        library_nearest.nearest,
        distances.data_ptr(),
        argmin.data_ptr(),
        bytes_of=lambda call: library_nearest.workspace_bytes(call, library.FORWARD),
    )
    return distances, argmin


@nearest.register_fake
def _nearest_fake(x, y, x_lengths, y_lengths):  # type: ignore[no-untyped-def]
    return _empty_results(x)


def _empty_gradients(x: Tensor, y: Tensor, of_x: bool, of_y: bool) -> Tuple[Tensor, Tensor]:
    return x.new_empty(x.shape if of_x else (0,)), y.new_empty(y.shape if of_y else (0,))


@operator("nearest_backward")
def nearest_backward(
    distance_gradients: Tensor,
    argmin: Tensor,
    x: Tensor,
    y: Tensor,
    x_lengths: Optional[Tensor],
    y_lengths: Optional[Tensor],
    of_x: bool,
    of_y: bool,
) -> Tuple[Tensor, Tensor]:
    """maxsim_nearest_backward: the gradients of x and y in their type and shapes; those not asked for are empty."""
    made = _make_call(x, y, x_lengths, y_lengths)
    results = _empty_gradients(x, y, of_x, of_y)
    gradients = library_nearest.NearestGradients(struct_size=ctypes.sizeof(library_nearest.NearestGradients))
    gradients.argmin = made.address(argmin)
    gradients.distance_gradients = made.address(distance_gradients)
    gradients.x_gradients = results[0].data_ptr() if of_x else None
    gradients.y_gradients = results[1].data_ptr() if of_y else None
    made.compute(
        library_nearest.nearest_backward,
        gradients,
        bytes_of=lambda call: library_nearest.workspace_bytes(call, library.BACKWARD) if of_y else 0,
    )
    return results


@nearest_backward.register_fake
def _nearest_backward_fake(  # type: ignore[no-untyped-def]
    distance_gradients, argmin, x, y, x_lengths, y_lengths, of_x, of_y
):
    return _empty_gradients(x, y, of_x, of_y)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *inputs)


def _differentiate(ctx: Any, distance_gradients: Tensor, _: Any) -> Any:
    of_x, of_y = ctx.needs_input_grad[:2]
    x_gradients, y_gradients = nearest_backward(distance_gradients, *ctx.saved_tensors, of_x, of_y)
    return x_gradients if of_x else None, y_gradients if of_y else None, None, None


nearest.register_autograd(_differentiate, setup_context=_save)
