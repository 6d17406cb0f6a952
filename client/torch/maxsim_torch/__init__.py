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
from .colpali_patch import patch_colpali_engine, unpatch_colpali_engine
from .functions import maxsim_scores, maxsim_scores_packed
from .head_scores import fused_head_scores
from .library import LibraryError, device_available, library_version
from .nearest import NearestDistances, chamfer_distance, nearest_distances
from .pylate_patch import patch_pylate, unpatch_pylate
from .residual_codes import residual_code_scores
from .residual_codes_reference import decompress_residual_codes
from .top_k import maxsim_top_k
from .triadic import TriadicScores, triadic_attention, triadic_maxsim_scores

__all__ = [
    "LibraryError",
    "NearestDistances",
    "TriadicScores",
    "chamfer_distance",
    "decompress_residual_codes",
    "device_available",
    "fused_head_scores",
    "library_version",
    "maxsim_scores",
    "maxsim_scores_packed",
    "maxsim_top_k",
    "nearest_distances",
    "patch_colpali_engine",
    "patch_pylate",
    "reference",
    "residual_code_scores",
    "triadic_attention",
    "triadic_maxsim_scores",
    "unpatch_colpali_engine",
    "unpatch_pylate",
]
__version__ = library_version()
