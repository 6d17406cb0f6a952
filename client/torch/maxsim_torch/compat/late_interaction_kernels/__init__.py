"""The names of late-interaction-kernels 0.4.5, computed by maxsim_torch.

    from maxsim_torch.compat import late_interaction_kernels as lik

    scores = lik.maxsim(queries, documents, q_mask=query_mask, d_mask=document_mask, normalize=True)

Names, arguments, shapes and errors are those of that package; so is its meaning: a document without a token that counts
scores 0, and results are in float32. The CPU has the same functions as an NVIDIA GPU. Three things differ. float32 is
computed in float32, which the package rounds to float16. Gradients have one implementation, so that the three values of
`backward` name the same one: sums in float32, in a fixed order, written once in the type of the input. What belongs to
Triton and Metal alone (tables of tile sizes, caches of compiled kernels) is not there.

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
