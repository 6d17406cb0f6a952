"""What triadic.py computes, in plain PyTorch: for tests, and to read. It writes the n x m x l tensor."""

from typing import Optional

import torch
from torch import Tensor

from .tokens import counting
from .triadic import TriadicScores, sum_maxima


def _there(tensor: Tensor, lengths: Optional[Tensor]) -> Tensor:
    """Which of the tokens [..., tokens] there are, by lengths that broadcast to [...]."""
    return counting(tuple(tensor.shape[:-1]), lengths, None, tensor.device)


def _contract(queries: Tensor, first: Tensor, second: Tensor, pairs: Tensor) -> Tensor:
    """<query_i, first_j, second_k> [..., n, m * l]; -infinity where `pairs` [..., m, l] is false."""
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
    # Values of keys that are not there may be anything, and must not reach a product.
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
    """maxsim_torch.triadic_maxsim_scores, in the type of the inputs. The gradient of a maximum goes to the first of
    equal pairs, as there."""
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
