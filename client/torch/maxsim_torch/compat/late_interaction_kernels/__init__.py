"""The names of late-interaction-kernels 0.4.5, computed by maxsim_torch.

    from maxsim_torch.compat import late_interaction_kernels as lik

    scores = lik.maxsim(queries, documents, q_mask=query_mask, d_mask=document_mask, normalize=True)

Names, arguments, shapes, errors and results are those of that package: a document without a token that counts scores 0,
and results are float32. All functions work on the CPU and on NVIDIA GPUs. There are three differences. First, float32
inputs are computed in float32; the package rounds them to float16. Second, gradients have one implementation, so the
three values of `backward` do the same: sums in float32, in a fixed order, rounded once to the type of the input. Third,
everything that only concerns Triton and Metal (tables of tile sizes, caches of compiled kernels) is missing.

Modules: autograd (maxsim, maxsim_pairs), varlen, score_pairs, padded, retrieve, topk, forward, backward, fused_head,
plaid, fp8, reference (plain PyTorch), mps, pylate_compat, colpali_compat.
"""

from . import reference
from .autograd import maxsim, maxsim_pairs
from .colpali_compat import patch_colpali_engine, unpatch_colpali_engine
from .padded import maxsim_padded
from .pylate_compat import patch_pylate, unpatch_pylate
from .retrieve import MaxSimScorer, retrieve
from .varlen import maxsim_varlen

# The release whose names these are.
__version__ = "0.4.5"

__all__ = [
    "MaxSimScorer",
    "__version__",
    "maxsim",
    "maxsim_padded",
    "maxsim_pairs",
    "maxsim_varlen",
    "patch_colpali_engine",
    "patch_pylate",
    "reference",
    "retrieve",
    "unpatch_colpali_engine",
    "unpatch_pylate",
]
