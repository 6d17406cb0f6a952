"""Nearest points of sets and the Chamfer distance: tensors in, distances out."""

from typing import Literal, NamedTuple, Optional

import torch
from torch import Tensor

from .checks import check_columns, check_tensors, explain_values, explained
from .nearest_operators import nearest as nearest_operator
from .tokens import FLOATS, flat_rows, indices, of_one_type, shaped


class NearestDistances(NamedTuple):
    """Squared distances in float32, and in int32 the index of the nearest point (-1: none)."""

    distances: Tensor
    argmin: Tensor


def _sets(x: Tensor, y: Tensor) -> "tuple[int, ...]":
    """Returns the leading (batch) dimensions of x and y. Raises TypeError or ValueError if x and y do not fit
    together."""
    check_tensors(x=x, y=y)
    for name, points in (("x", x), ("y", y)):
        if points.dtype not in FLOATS:
            raise TypeError(f"{name} has type {points.dtype}; must be float32, float16 or bfloat16")
        if points.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(points.shape)}; must be [..., points, d]")
        check_columns(f"points of {name}", points)
    if x.dtype != y.dtype or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"x is {tuple(x.shape)} of {x.dtype} and y {tuple(y.shape)} of {y.dtype}; must have one type, and "
            f"one shape but for the number of points"
        )
    return tuple(x.shape[:-2])


def _lengths(
    x: Tensor, y: Tensor, x_lengths: Optional[Tensor], y_lengths: Optional[Tensor]
) -> "list[Optional[Tensor]]":
    """Returns both lengths in the same integer type."""
    given = (("x_lengths", x_lengths, x), ("y_lengths", y_lengths, y))
    return of_one_type(
        [None if one is None else indices(name, one, tuple(points.shape[:-2])) for name, one, points in given]
    )


def nearest_distances(
    x: Tensor,
    y: Tensor,
    *,
    x_lengths: Optional[Tensor] = None,
    y_lengths: Optional[Tensor] = None,
) -> NearestDistances:
    """Returns the squared Euclidean distance of each point of x to the nearest point of y, and that point's index.

        distances[..., i] = min_j sum_c (x[..., i, c] - y[..., j, c])^2

    `x` is [..., N, d] and `y` [..., M, d], of one type (float32, float16 or bfloat16); the leading dimensions are those
    of a batch of sets, N and M at most 2^31 - 1 over the batch, and d is 1 to 4,096. `x_lengths` and `y_lengths`, in
    the shape of the leading dimensions, are integers: the number of points of each set.

    Returns (distances [..., N] in float32, argmin [..., N] in int32). If several points are equally near, argmin is the
    smallest index. A point at or after its set's length has the distance 0 and the argmin -1. If there is no y, the
    distance is infinity and the argmin -1. In both cases there are no gradients. Values must be finite, and at most
    1e15 in magnitude.

    Differences are squared in float32, so that distances of close points far from the origin stay accurate. The N x M
    matrix is never written. Gradients of x and y are computed only from the argmin, in the inputs' type, with sums in
    float32 in a fixed order, so every run gives the same bits. There are no second derivatives.

    ValueError: shapes or lengths do not fit. TypeError: a type is not supported. On CUDA, lengths are not checked.
    """
    outer = _sets(x, y)
    x_lengths, y_lengths = _lengths(x, y, x_lengths, y_lengths)

    def explain() -> None:
        explain_values("x_lengths", x_lengths, x.shape[-2])
        explain_values("y_lengths", y_lengths, y.shape[-2])

    distances, argmin = explained(
        lambda: nearest_operator(flat_rows(x), flat_rows(y), shaped(x_lengths, (-1,)), shaped(y_lengths, (-1,))),
        explain,
    )
    shape = (*outer, x.shape[-2])
    return NearestDistances(distances.reshape(shape), argmin.reshape(shape))


def mean_distance(
    distances: Tensor, lengths: Optional[Tensor], others: Tensor, other_lengths: Optional[Tensor], squared: bool
) -> Tensor:
    """Returns, for each set, the mean of the squared distances [..., N] from its points (`lengths` [...] of them) to
    those of `others` [..., M, d]; if not `squared`, the mean of their roots. The mean is 0 if either set has no
    points."""
    counts = torch.full(distances.shape, others.shape[-2] > 0, device=distances.device)
    if lengths is not None:
        counts = counts & (torch.arange(distances.shape[-1], device=distances.device) < lengths.unsqueeze(-1))
    if other_lengths is not None:
        counts = counts & (other_lengths > 0).unsqueeze(-1)
    distances = torch.where(counts, distances, 0)
    if not squared:
        # The root has no derivative at 0, so points that coincide get the gradient 0.
        positive = distances > 0
        distances = torch.where(positive, torch.where(positive, distances, 1).sqrt(), 0)
    return distances.sum(-1) / counts.sum(-1).clamp(min=1)


def reduce_sets(values: Tensor, reduction: str) -> Tensor:
    """Returns the values of all sets, or their mean, or their sum."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f'reduction is {reduction!r}; must be "none", "mean" or "sum"')
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def chamfer_distance(
    x: Tensor,
    y: Tensor,
    *,
    x_lengths: Optional[Tensor] = None,
    y_lengths: Optional[Tensor] = None,
    squared: bool = True,
    reduction: Literal["none", "mean", "sum"] = "mean",
) -> Tensor:
    """Returns the Chamfer distance of sets of points: the sum of the two directions' means.

        chamfer(x, y) = mean_i min_j |x_i - y_j|^2 + mean_j min_i |x_i - y_j|^2

    With `squared=False` the distances are not squared: |x_i - y_j|. A point that coincides with its nearest one then
    has the gradient 0 for that distance. Shapes, types, lengths and gradients are those of nearest_distances. Means are
    over the existing points. A direction without a pair of points adds 0. `reduction` decides the result for a batch of
    sets: "none" returns a value for each, in the shape of the leading dimensions; "mean" (the default) and "sum" return
    one number. The result is float32.
    """
    _sets(x, y)
    x_lengths, y_lengths = _lengths(x, y, x_lengths, y_lengths)
    there = nearest_distances(x, y, x_lengths=x_lengths, y_lengths=y_lengths).distances
    back = nearest_distances(y, x, x_lengths=y_lengths, y_lengths=x_lengths).distances
    sets = mean_distance(there, x_lengths, y, y_lengths, squared)
    sets = sets + mean_distance(back, y_lengths, x, x_lengths, squared)
    return reduce_sets(sets, reduction)
