"""Chamfer distance between two sets of points."""

from __future__ import annotations

import torch
from torch import Tensor

from ...nearest import nearest_distances
from ._arguments import parts, require, require_forms

_METRICS = ("l2_sq", "l1")


def _check(points: Tensor, others: Tensor, metric: str) -> None:
    require_forms(P=(points, "[N, d]"), Q=(others, "[M, d]"))
    require(metric in _METRICS, f"metric is {metric!r}; must be one of {_METRICS}")


def _nearest(points: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Returns squared distances [N] and indices [N]. If the two sets have different types, compares them in a type that
    holds both, at most float32."""
    dtype = torch.promote_types(points.dtype, others.dtype)
    if dtype == torch.float64:
        dtype = torch.float32
    distances, indices = nearest_distances(points.to(dtype), others.to(dtype))
    return distances, indices


def _manhattan(points: Tensor, others: Tensor) -> Tensor:
    """Returns the smallest Manhattan distance [N] of each point. Computes it for a part of the points at a time."""
    distances = torch.empty(points.shape[0], dtype=torch.float32, device=points.device)
    others = others.float()
    for begin, end in parts(points.shape[0], 4 * others.shape[0]):
        distances[begin:end] = torch.cdist(points[begin:end].float(), others, p=1).min(-1).values
    return distances


@torch.no_grad()
def flash_chamfer_one_direction(
    P: Tensor, Q: Tensor, metric: str = "l2_sq", save_argmin: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the distance of each point of P [N, d] to the nearest point of Q [M, d], [N] in float32: squared
    Euclidean ("l2_sq") or Manhattan ("l1"). With save_argmin, which "l1" does not support, returns (distances,
    indices): indices [N] in int32 are the nearest points, the smallest index if several are equally near."""
    _check(P, Q, metric)
    require(metric != "l1" or not save_argmin, 'metric is "l1", which has no save_argmin; "l2_sq" does')
    if metric == "l1":
        return _manhattan(P, Q)
    return _nearest(P, Q) if save_argmin else _nearest(P, Q)[0]


@torch.no_grad()
def flash_chamfer(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """Returns the sum of two means: the mean distance of P's points [N, d] to the nearest of Q [M, d], and that of Q's
    points to the nearest of P. It is a scalar in float32. `metric` is as in flash_chamfer_one_direction."""
    _check(P, Q, metric)
    if metric == "l1":
        return _manhattan(P, Q).mean() + _manhattan(Q, P).mean()
    return flash_chamfer_train(P, Q)


def flash_chamfer_train(P: Tensor, Q: Tensor) -> Tensor:
    """Computes flash_chamfer with squared Euclidean distances. Both sets have gradients, in their own types."""
    _check(P, Q, "l2_sq")
    return _nearest(P, Q)[0].mean() + _nearest(Q, P)[0].mean()


def naive_chamfer_one_direction(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """Computes flash_chamfer_one_direction by its definition, [N] in float32. Writes the matrix of distances [N, M]."""
    _check(P, Q, metric)
    if metric == "l1":
        return torch.cdist(P.float(), Q.float(), p=1).min(-1).values
    return torch.cdist(P.float(), Q.float()).square().min(-1).values


def naive_chamfer(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """Computes flash_chamfer by its definition, a scalar in float32. Writes the matrix of distances [N, M]."""
    return naive_chamfer_one_direction(P, Q, metric).mean() + naive_chamfer_one_direction(Q, P, metric).mean()
