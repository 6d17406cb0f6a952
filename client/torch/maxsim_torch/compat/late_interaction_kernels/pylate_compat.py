"""Patches PyLate as late-interaction-kernels does. maxsim_torch.patch_pylate has fewer restrictions.

maxsim scores tensors on a GPU (there, a document token that is left out cannot be the best). PyLate still computes
everything else: on the CPU, with fewer than 8 columns, on GPUs below compute capability 8.0, and everything while
LIK_DISABLE is 1. From 1.5.1 on, PyLate itself imports late-interaction-kernels, so this patch_pylate leaves it
unchanged.
"""

import importlib
import os
import types
import warnings
from typing import Any, Dict, Optional

import torch
from torch import Tensor

from ... import pylate_patch
from ...replacing import Function
from ._utils import package_at_least
from .autograd import maxsim, maxsim_pairs

# The original functions of pylate.scores while they are replaced.
_ORIGINAL: Dict[str, Function] = {}
_PYLATE_NATIVE_MIN = "1.5.1"
_NATIVE_NOTICE_SHOWN = False


def device_path(q: Tensor, d: Tensor) -> Optional[str]:
    """Returns "cuda" if maxsim computes the scores, and None if PyLate does."""
    if os.environ.get("LIK_DISABLE", "0") == "1" or q.device != d.device or q.shape[-1] < 8 or not q.is_cuda:
        return None
    return "cuda" if torch.cuda.get_device_capability(q.device)[0] >= 8 else None


def _patched(name: str, score: Function, args: "tuple[Any, ...]", mask: Any) -> Any:
    """Computes scores with `score` if that can, and otherwise with PyLate's function `name`. `mask` is the value of
    the argument that PyLate before 1.1 had instead of documents_mask."""
    from pylate.utils.tensor import convert_to_tensor  # type: ignore[import-not-found, import-untyped, unused-ignore]

    queries, documents = convert_to_tensor(args[0]), convert_to_tensor(args[1])
    queries_mask, documents_mask = args[2], mask if args[3] is None else args[3]
    if device_path(queries, documents) is None:
        return _ORIGINAL[name](queries, documents, queries_mask=queries_mask, documents_mask=documents_mask)
    return score(queries, documents, q_mask=queries_mask, d_mask=documents_mask)


def patched_colbert_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    *,
    mask: Any = None,
) -> Any:
    """pylate.scores.colbert_scores by maxsim."""
    args = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return _patched("colbert_scores", maxsim, args, mask)


def patched_colbert_kd_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    *,
    mask: Any = None,
) -> Any:
    """Replaces pylate.scores.colbert_kd_scores by maxsim. Documents are [Nq, K, Ld, d]; others are a ValueError on a
    GPU."""
    args = (queries_embeddings, documents_embeddings, queries_mask, documents_mask)
    return _patched("colbert_kd_scores", _kd_scores, args, mask)


def patched_colbert_scores_pairwise(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    *,
    mask: Any = None,
) -> Any:
    """Replaces pylate.scores.colbert_scores_pairwise by maxsim_pairs. Without masks, sequences may differ in length;
    PyLate's own function scores those."""
    embeddings = (queries_embeddings, documents_embeddings)
    tensors = all(isinstance(value, Tensor) for value in embeddings)
    if queries_mask is None and documents_mask is None and mask is None:
        if not tensors or device_path(*embeddings) is None:
            return _ORIGINAL["colbert_scores_pairwise"](*embeddings)
    return _patched("colbert_scores_pairwise", maxsim_pairs, (*embeddings, queries_mask, documents_mask), mask)


def _kd_scores(Q: Tensor, D: Tensor, q_mask: Optional[Tensor], d_mask: Optional[Tensor]) -> Tensor:
    if D.dim() != 4:
        raise ValueError(f"colbert_kd_scores expects D.dim()==4, documents [Nq, K, Ld, d]; they are {tuple(D.shape)}")
    return maxsim(Q, D, q_mask, d_mask)


_REPLACEMENTS: Dict[str, Function] = {
    "colbert_scores": patched_colbert_scores,
    "colbert_kd_scores": patched_colbert_kd_scores,
    "colbert_scores_pairwise": patched_colbert_scores_pairwise,
}


def _scores_defining_module() -> "tuple[types.ModuleType, bool]":
    """Returns the module of PyLate that defines colbert_scores, and whether it is the one of PyLate 1.5 and later."""
    module = pylate_patch.defining_module()
    return module, module.__name__ != "pylate.scores.scores"


def _missed(new_layout: bool) -> "list[str]":
    """Returns the losses of PyLate that do not hold the function they are expected to hold."""
    wanted = {"distillation": "colbert_kd_scores"}
    if not new_layout:
        wanted.update(contrastive="colbert_scores", cached_contrastive="colbert_scores")
    missed = []
    for loss, name in wanted.items():
        try:
            module = importlib.import_module(f"pylate.losses.{loss}")
        except ImportError:
            continue  # This release has no such loss.
        if not hasattr(module, name):
            missed.append(f"pylate.losses.{loss}.{name}")
    return missed


def patch_pylate() -> None:
    """Makes pylate.scores and PyLate's losses score with maxsim. PyLate 1.5.1 and later stays unchanged, with a
    DeprecationWarning the first time. A RuntimeWarning names each loss that does not hold the expected function."""
    global _NATIVE_NOTICE_SHOWN
    if package_at_least("pylate", _PYLATE_NATIVE_MIN):
        if not _NATIVE_NOTICE_SHOWN:
            _NATIVE_NOTICE_SHOWN = True
            warnings.warn(
                f"late-interaction-kernels (maxsim_torch): patch_pylate() leaves PyLate from {_PYLATE_NATIVE_MIN} on "
                f"alone, as that package does. maxsim_torch.patch_pylate() patches every PyLate.",
                DeprecationWarning,
                stacklevel=2,
            )
        return
    if _ORIGINAL:
        return
    _, new_layout = _scores_defining_module()
    missed = _missed(new_layout)  # Loads the losses, so that the functions that they hold are replaced.
    pylate_patch.install(_ORIGINAL, _REPLACEMENTS)
    if missed:
        warnings.warn(
            f"late-interaction-kernels (maxsim_torch): patch_pylate() did not find {', '.join(missed)}, and what "
            f"scores there may be PyLate's own. PyLate was refactored, it seems; "
            f"maxsim_torch.patch_pylate() may know it.",
            RuntimeWarning,
            stacklevel=2,
        )


def unpatch_pylate() -> None:
    """Gives PyLate its own functions back."""
    if _ORIGINAL:
        pylate_patch.restore(_ORIGINAL, _REPLACEMENTS)
