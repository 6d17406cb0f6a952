"""Chamfer distance between two sets of points."""

from __future__ import annotations

import torch
from torch import Tensor

from ...nearest import nearest_distances
from ._arguments import parts, require, require_forms

_METRICS = ("l2_sq", "l1")


def _check(points: Tensor, others: Tensor, metric: str) -> None:
    require_forms(P=(points, "[N, d]"), Q=(others, "[M, d]"))
    require(metric in _METRICS, f"metric is {metric!r}; it is one of {_METRICS}")


def _nearest(points: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances [N] and indices [N]; where the points are of two types, they are compared in a type that holds
    both, at most float32."""
    dtype = torch.promote_types(points.dtype, others.dtype)
    if dtype == torch.float64:
        dtype = torch.float32
    distances, indices = nearest_distances(points.to(dtype), others.to(dtype))
    return distances, indices


def _manhattan(points: Tensor, others: Tensor) -> Tensor:
    """The least Manhattan distance [N] of each point, a part of the points at a time."""
    distances = torch.empty(points.shape[0], dtype=torch.float32, device=points.device)
    others = others.float()
    for begin, end in parts(points.shape[0], 4 * others.shape[0]):
        distances[begin:end] = torch.cdist(points[begin:end].float(), others, p=1).min(-1).values
    return distances


@torch.no_grad()
def flash_chamfer_one_direction(
    P: Tensor, Q: Tensor, metric: str = "l2_sq", save_argmin: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The distance [N] in float32 of each point of P [N, d] to the nearest of Q [M, d]: squared Euclidean ("l2_sq") or
    Manhattan ("l1"). With save_argmin (distances, indices [N] in int32 of the nearest points, the smallest of equals),
    which "l1" does not have."""
    _check(P, Q, metric)
    require(metric != "l1" or not save_argmin, 'metric is "l1", which has no save_argmin; "l2_sq" does')
    if metric == "l1":
        return _manhattan(P, Q)
    return _nearest(P, Q) if save_argmin else _nearest(P, Q)[0]


@torch.no_grad()
def flash_chamfer(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """The mean distance of the points of P [N, d] to the nearest of Q [M, d], and the mean the other way, added: a
    scalar in float32. `metric` is as in flash_chamfer_one_direction."""
    _check(P, Q, metric)
    if metric == "l1":
        return _manhattan(P, Q).mean() + _manhattan(Q, P).mean()
    return flash_chamfer_train(P, Q)


def flash_chamfer_train(P: Tensor, Q: Tensor) -> Tensor:
    """flash_chamfer with squared Euclidean distances, with gradients of both sets in their types."""
    _check(P, Q, "l2_sq")
    return _nearest(P, Q)[0].mean() + _nearest(Q, P)[0].mean()


def naive_chamfer_one_direction(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """The definition of flash_chamfer_one_direction, [N] in float32: it writes the distances [N, M]."""
    _check(P, Q, metric)
    if metric == "l1":
        return torch.cdist(P.float(), Q.float(), p=1).min(-1).values
    return torch.cdist(P.float(), Q.float()).square().min(-1).values


def naive_chamfer(P: Tensor, Q: Tensor, metric: str = "l2_sq") -> Tensor:
    """The definition of flash_chamfer, a scalar in float32: it writes the distances [N, M]."""
    return naive_chamfer_one_direction(P, Q, metric).mean() + naive_chamfer_one_direction(Q, P, metric).mean()
