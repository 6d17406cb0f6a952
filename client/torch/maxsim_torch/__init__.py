"""MaxSim for PyTorch: the kernels of maxsimd as operators, with gradients.

    score(q, d) = sum over query tokens i of weight_i * max over document tokens j of <q_i, d_j>

The matrix of similarities is never written: the forward pass keeps the index of the best document token of each query
token, and the backward pass needs nothing else. Results are the same bits in every run.

    import torch
    from maxsim_torch import maxsim_scores

    queries = torch.randn(8, 32, 128, requires_grad=True)
    documents = torch.randn(64, 300, 128, requires_grad=True)
    scores = maxsim_scores(queries, documents)                  # [8, 64]
    torch.nn.functional.cross_entropy(scores, torch.arange(8)).backward()
"""

from . import reference
from .functions import maxsim_scores, maxsim_scores_packed
from .library import LibraryError, device_available, library_version
from .nearest import NearestDistances, chamfer_distance, nearest_distances

__all__ = [
    "LibraryError",
    "NearestDistances",
    "chamfer_distance",
    "device_available",
    "library_version",
    "maxsim_scores",
    "maxsim_scores_packed",
    "nearest_distances",
    "reference",
]
__version__ = library_version()
