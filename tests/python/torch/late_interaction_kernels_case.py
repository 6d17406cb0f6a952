"""Shared by the tests of maxsim_torch.compat.late_interaction_kernels. Computes scores by definition in float64, and
compares scores and gradients with them."""

import torch
from torch_fixture import ROUNDING, TorchTest

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def true_pair(query, document, q_mask=None, d_mask=None, normalize=False):
    """Returns the score of one pair in float64, by its definition."""
    query, document = query.double(), document.double()
    if normalize:
        query, document = (tokens / tokens.norm(dim=-1, keepdim=True) for tokens in (query, document))
    if d_mask is not None:
        document = document[d_mask]
    if q_mask is not None:
        query = query[q_mask]
    if not query.shape[0] or not document.shape[0]:
        return query.sum() * 0
    return torch.stack([(document @ token).max() for token in query]).sum()


def at(masks, *index):
    return None if masks is None else masks[index]


def true_scores(Q, D, q_mask=None, d_mask=None, normalize=False):
    """maxsim of batches, [Nq, Nd] or [Nq, K]."""
    rows = []
    for i, query in enumerate(Q):
        documents, outer = (D[i], (i,)) if D.dim() == 4 else (D, ())
        rows.append(
            torch.stack(
                [
                    true_pair(query, document, at(q_mask, i), at(d_mask, *outer, j), normalize)
                    for j, document in enumerate(documents)
                ]
            )
        )
    return torch.stack(rows)


class CompatTest(TorchTest):
    def check(self, function, true_function, tensors, dtype=torch.float32, device="cpu", terms=1):
        """Compares `function`, called with tensors of type `dtype`, with `true_function` in float64: the scores, and
        the gradients of a weighted sum of them. `terms` is how many roundings to `dtype` a score may have."""
        given = [tensor.detach().to(device, dtype, copy=True).requires_grad_() for tensor in tensors]
        doubles = [tensor.detach().cpu().double().requires_grad_() for tensor in given]
        scores, expected = function(*given), true_function(*doubles)
        values, true_values = scores.detach().cpu().double(), expected.detach()
        self.assertEqual(scores.dtype, torch.float32)
        self.assertEqual(scores.shape, expected.shape)
        bound = 1e-5 + terms * (ROUNDING[dtype] if terms > 1 else 0)
        self.assertLess(float((values - true_values).abs().max()) / max(1.0, float(true_values.abs().max())), bound)
        factors = self.values(*expected.shape)
        (scores * factors.to(device)).sum().backward()
        (expected * factors.double()).sum().backward()
        for one, other in zip(given, doubles):
            self.assertEqual(one.grad.dtype, dtype)
            error = (one.grad.cpu().double() - other.grad).abs().max()
            self.assertLess(
                float(error) / max(1.0, float(other.grad.abs().max())), 2e-5 + (terms + 1) * ROUNDING[dtype]
            )

    def mask(self, *shape):
        mask = torch.rand(shape, generator=self.random) < 0.6
        mask[..., 0] = True
        return mask
