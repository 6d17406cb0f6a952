"""The functions of triadic.py in plain PyTorch: the reference for tests, and a readable definition. Unlike the
operators, they keep the whole n x m x l tensor in memory."""

from typing import Optional

import torch
from torch import Tensor

from .tokens import counting
from .triadic import TriadicScores, sum_maxima


def _there(tensor: Tensor, lengths: Optional[Tensor]) -> Tensor:
    """Returns which of the tokens [..., tokens] exist according to lengths, which broadcast to [...]."""
    return counting(tuple(tensor.shape[:-1]), lengths, None, tensor.device)


def _contract(queries: Tensor, first: Tensor, second: Tensor, pairs: Tensor) -> Tensor:
    """Returns <query_i, first_j, second_k> as [..., n, m * l], with -infinity where `pairs` [..., m, l] is false."""
    contracted = torch.einsum("...ic,...jc,...kc->...ijk", queries, first, second)
    return contracted.masked_fill(~pairs.unsqueeze(-3), float("-inf")).flatten(-2)


def triadic_attention(
    queries: Tensor,
    first_keys: Tensor,
    second_keys: Tensor,
    first_values: Tensor,
    second_values: Tensor,
    *,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None,
) -> Tensor:
    """maxsim_torch.triadic_attention, in the type of the inputs."""
    first_there, second_there = _there(first_keys, first_lengths), _there(second_keys, second_lengths)
    # Values beyond the lengths may be NaN or infinite. They are set to 0, because 0 times NaN would be NaN in the
    # products below.
    first_keys, first_values = (
        torch.where(first_there.unsqueeze(-1), tensor, 0) for tensor in (first_keys, first_values)
    )
    second_keys, second_values = (
        torch.where(second_there.unsqueeze(-1), tensor, 0) for tensor in (second_keys, second_values)
    )
    pairs = first_there.unsqueeze(-1) & second_there.unsqueeze(-2)
    scale = queries.shape[-1] ** -0.5 if scale is None else scale
    logits = scale * _contract(queries, first_keys, second_keys, pairs)
    any_pair = pairs.flatten(-2).any(-1).unsqueeze(-1).unsqueeze(-1)
    weights = torch.where(any_pair, torch.where(any_pair, logits, 0).softmax(-1), 0)
    weights = weights.reshape(*weights.shape[:-1], *pairs.shape[-2:])
    return torch.einsum("...ijk,...jc,...kc->...ic", weights, first_values, second_values)


def triadic_maxsim_scores(
    queries: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    query_lengths: Optional[Tensor] = None,
    first_lengths: Optional[Tensor] = None,
    second_lengths: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    return_argmax: bool = False,
) -> "Tensor | TriadicScores":
    """Computes maxsim_torch.triadic_maxsim_scores, in the type of the inputs. If several pairs have the maximum, its
    gradient goes to the first of them, as in triadic.py."""
    there = [
        _there(tensor, lengths)
        for tensor, lengths in ((queries, query_lengths), (first, first_lengths), (second, second_lengths))
    ]
    queries, first, second = (
        torch.where(counts.unsqueeze(-1), tensor, 0) for tensor, counts in zip((queries, first, second), there)
    )
    pairs = there[1].unsqueeze(-1) & there[2].unsqueeze(-2)
    contracted = _contract(queries, first, second, pairs)  # [..., n, m * l]
    found = there[0] & pairs.flatten(-2).any(-1, keepdim=True)
    if contracted.shape[-1] == 0:
        maxima, argmax = contracted.new_zeros(contracted.shape[:-1]), torch.zeros_like(found, dtype=torch.int64)
    else:
        argmax = contracted.argmax(-1)  # the first of equals
        maxima = contracted.gather(-1, argmax.unsqueeze(-1)).squeeze(-1)
    maxima = torch.where(found, maxima, torch.where(there[0], float("-inf"), 0.0).to(maxima.dtype))
    scores = sum_maxima(maxima, query_lengths, weights)
    if not return_argmax:
        return scores
    num_second = max(second.shape[-2], 1)
    pair = torch.stack((argmax // num_second, argmax % num_second), -1)
    return TriadicScores(scores, torch.where(found.unsqueeze(-1), pair, -1).to(torch.int32))
