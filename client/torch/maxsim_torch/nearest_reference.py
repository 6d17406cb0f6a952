"""Computes the same as nearest.py in plain PyTorch, for tests and readers. Writes the N x M matrix of distances."""

from typing import Literal, Optional

import torch
from torch import Tensor

from .nearest import NearestDistances, mean_distance, reduce_sets
from .tokens import counting


def nearest_distances(
    x: Tensor,
    y: Tensor,
    *,
    x_lengths: Optional[Tensor] = None,
    y_lengths: Optional[Tensor] = None,
) -> NearestDistances:
    """Computes maxsim_torch.nearest_distances in the type of the inputs. If several points are equally near, the first
    one gets the gradient, as in the operator."""
    x_counts = counting(tuple(x.shape[:-1]), x_lengths, None, x.device)
    y_counts = counting(tuple(y.shape[:-1]), y_lengths, None, y.device)
    # Points beyond the lengths may have any values, so they must not be part of a difference.
    x = torch.where(x_counts.unsqueeze(-1), x, 0)
    y = torch.where(y_counts.unsqueeze(-1), y, 0)
    matrix = (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)  # [..., N, M]
    matrix = matrix.masked_fill(~y_counts.unsqueeze(-2), float("inf"))
    found = x_counts & y_counts.any(-1, keepdim=True)
    if y.shape[-2] == 0:
        distances, argmin = x.new_full(x.shape[:-1], float("inf")), torch.zeros_like(x_counts, dtype=torch.int64)
    else:
        argmin = matrix.argmin(-1)  # the first of equals
        distances = matrix.gather(-1, argmin.unsqueeze(-1)).squeeze(-1)
    distances = torch.where(found, distances, torch.where(x_counts, float("inf"), 0.0).to(x.dtype))
    return NearestDistances(distances, torch.where(found, argmin, -1).to(torch.int32))


def chamfer_distance(
    x: Tensor,
    y: Tensor,
    *,
    x_lengths: Optional[Tensor] = None,
    y_lengths: Optional[Tensor] = None,
    squared: bool = True,
    reduction: Literal["none", "mean", "sum"] = "mean",
) -> Tensor:
    """maxsim_torch.chamfer_distance, in the type of the inputs."""
    there = nearest_distances(x, y, x_lengths=x_lengths, y_lengths=y_lengths).distances
    back = nearest_distances(y, x, x_lengths=y_lengths, y_lengths=x_lengths).distances
    sets = mean_distance(there, x_lengths, y, y_lengths, squared)
    sets = sets + mean_distance(back, y_lengths, x, x_lengths, squared)
    return reduce_sets(sets, reduction)
