"""Patches colpali-engine as late-interaction-kernels does. maxsim_torch.patch_colpali_engine has fewer restrictions.

maxsim_scores scores tensors on a GPU. colpali-engine still computes everything else: on the CPU, with fewer than 8
columns, on GPUs below compute capability 8.0, smooth maxima, and everything while LIK_DISABLE is 1. From 0.3.17 on,
colpali-engine itself imports late-interaction-kernels, so this patch_colpali_engine leaves it unchanged.
"""

import warnings
from typing import Dict

from torch import Tensor

from ...colpali_patch import LOSSES, install, restore, scoring_forward, scoring_processor
from ...replacing import Function
from ._utils import package_at_least
from .pylate_compat import device_path

_COLPALI_NATIVE_MIN = "0.3.17"
_NATIVE_NOTICE_SHOWN = False

# Colpali-engine's own functions while they are replaced.
_ORIGINAL: Dict[str, Function] = {}


def _takes(queries: Tensor, documents: Tensor) -> bool:
    return device_path(queries, documents) is not None


_METHODS: Dict[str, Function] = {
    **{f"{loss}.forward": scoring_forward(loss, _ORIGINAL, _takes) for loss in LOSSES},
    "BaseVisualRetrieverProcessor.score_multi_vector": scoring_processor(_ORIGINAL, _takes),
}

# The replacements under their names in late-interaction-kernels. They work only while colpali-engine is patched.
patched_score_multi_vector = _METHODS["BaseVisualRetrieverProcessor.score_multi_vector"]
patched_colbert_loss_forward = _METHODS["ColbertLoss.forward"]
patched_colbert_pairwise_ce_forward = _METHODS["ColbertPairwiseCELoss.forward"]
patched_colbert_sigmoid_forward = _METHODS["ColbertSigmoidLoss.forward"]
patched_colbert_negative_ce_forward = _METHODS["ColbertNegativeCELoss.forward"]
patched_colbert_pairwise_negative_ce_forward = _METHODS["ColbertPairwiseNegativeCELoss.forward"]


def patch_colpali_engine() -> None:
    """Makes the late-interaction losses and the processors of colpali-engine before 0.3.17 score with maxsim_scores on
    a GPU. Later versions stay unchanged, with a DeprecationWarning the first time. ImportError: colpali-engine is not
    installed."""
    global _NATIVE_NOTICE_SHOWN
    if package_at_least("colpali-engine", _COLPALI_NATIVE_MIN):
        if not _NATIVE_NOTICE_SHOWN:
            _NATIVE_NOTICE_SHOWN = True
            warnings.warn(
                f"late-interaction-kernels (maxsim_torch): patch_colpali_engine() leaves colpali-engine from "
                f"{_COLPALI_NATIVE_MIN} on alone, as that package does. maxsim_torch.patch_colpali_engine() patches "
                f"every colpali-engine.",
                DeprecationWarning,
                stacklevel=2,
            )
    elif not _ORIGINAL:
        install(_ORIGINAL, _METHODS)


def unpatch_colpali_engine() -> None:
    """Gives colpali-engine its own functions back."""
    if _ORIGINAL:
        restore(_ORIGINAL, _METHODS)
