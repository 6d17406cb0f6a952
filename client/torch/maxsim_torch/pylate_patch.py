"""Makes PyLate use maxsim_torch's operators, in its scores and therefore in its losses, reranking and evaluators.

from maxsim_torch import patch_pylate, unpatch_pylate

patch_pylate()
loss = pylate.losses.Contrastive(model)     # as before, without a matrix of similarities
unpatch_pylate()
"""

import importlib
import os
import types
from typing import Any, Dict, Optional

import torch
from torch import Tensor

from .functions import maxsim_scores, maxsim_scores_packed
from .replacing import Function, computable, in_the_type_of_products, replace

# The original functions of pylate.scores, while they are replaced.
_ORIGINAL: Dict[str, Function] = {}


def defining_module() -> types.ModuleType:
    """Returns the module of PyLate that defines colbert_scores: pylate.scores.colbert from 1.5 on, pylate.scores.scores
    before. ImportError: there is neither."""
    try:
        return importlib.import_module("pylate.scores.scores")
    except ImportError:
        return importlib.import_module("pylate.scores.colbert")


def install(originals: Dict[str, Function], replacements: Dict[str, Function]) -> None:
    """Replaces the functions of PyLate that have names in `replacements`, and keeps the original functions in
    `originals`."""
    module = defining_module()
    for name, new in replacements.items():
        if hasattr(module, name):
            originals[name] = getattr(module, name)
            replace("pylate", name, originals[name], new)


def restore(originals: Dict[str, Function], replacements: Dict[str, Function]) -> None:
    """Undoes install, also in modules that were imported after it. Empties `originals`."""
    for name, old in originals.items():
        replace("pylate", name, replacements[name], old)
    originals.clear()


def _another_backend(backend: Optional[str]) -> bool:
    """Returns whether a call, or the environment, selects one of PyLate's own backends."""
    return (backend or os.environ.get("PYLATE_SCORES_BACKEND", "auto")).lower() != "auto"


def _tensor(values: Any) -> Tensor:
    from pylate.utils.tensor import convert_to_tensor  # type: ignore[import-not-found, import-untyped, unused-ignore]

    made: Tensor = convert_to_tensor(values)
    return made


def _scores(
    name: str, num_dimensions: int, queries: Any, documents: Any, masks: "tuple[Any, Any]", options: Any
) -> Any:
    """Computes what PyLate's function `name` does. Masks multiply similarities: a document token that is left out has
    the similarity 0, which may be the best, and a query token adds its mask times its best similarity."""
    made_queries = in_the_type_of_products(_tensor(queries))
    made_documents = in_the_type_of_products(_tensor(documents))
    taken = made_queries.dim() == 3 and made_documents.dim() == num_dimensions
    if _another_backend(options.get("backend")) or not taken or not computable(made_queries, made_documents):
        return _ORIGINAL[name](queries, documents, *masks, **options)
    queries_mask, documents_mask = (None if mask is None else _tensor(mask) for mask in masks)
    if documents_mask is not None:
        made_documents = made_documents * documents_mask.unsqueeze(-1).to(made_documents.dtype)
    if queries_mask is None or queries_mask.dtype == torch.bool:
        return maxsim_scores(made_queries, made_documents, query_mask=queries_mask)
    return maxsim_scores(made_queries, made_documents, weights=queries_mask.expand(made_queries.shape[:2]))


def _colbert_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    **options: Any,
) -> Any:
    """pylate.scores.colbert_scores by maxsim_torch: [queries, documents], in float32."""
    masks = (queries_mask, documents_mask)
    return _scores("colbert_scores", 3, queries_embeddings, documents_embeddings, masks, options)


def _colbert_kd_scores(
    queries_embeddings: Any,
    documents_embeddings: Any,
    queries_mask: Any = None,
    documents_mask: Any = None,
    **options: Any,
) -> Any:
    """Replaces pylate.scores.colbert_kd_scores. Returns scores [queries, documents of each] in float32."""
    masks = (queries_mask, documents_mask)
    return _scores("colbert_kd_scores", 4, queries_embeddings, documents_embeddings, masks, options)


def _offsets(sequences: "list[Tensor]") -> Tensor:
    """Returns where each sequence begins in their concatenation, and where the last one ends."""
    lengths = torch.tensor([0] + [sequence.shape[0] for sequence in sequences], device="cpu")
    return lengths.cumsum(0).to(sequences[0].device)


def _colbert_scores_pairwise(queries_embeddings: Any, documents_embeddings: Any, **options: Any) -> Any:
    """Replaces pylate.scores.colbert_scores_pairwise. Returns scores [pairs] in float32. Sequences may differ in
    length."""
    pairs = list(zip(queries_embeddings, documents_embeddings))
    queries = [in_the_type_of_products(_tensor(query)) for query, _ in pairs]
    documents = [in_the_type_of_products(_tensor(document)) for _, document in pairs]
    taken = all(
        query.dim() == document.dim() == 2
        and computable(query, document)
        and (query.dtype, query.device, query.shape[1]) == (queries[0].dtype, queries[0].device, queries[0].shape[1])
        for query, document in zip(queries, documents)
    )
    if _another_backend(options.get("backend")) or not pairs or not taken:
        return _ORIGINAL["colbert_scores_pairwise"](queries_embeddings, documents_embeddings, **options)
    return maxsim_scores_packed(
        torch.cat(queries),
        torch.cat(documents),
        _offsets(documents),
        query_offsets=_offsets(queries),
        max_query_tokens=max(query.shape[0] for query in queries),
        paired=True,
    )


_REPLACEMENTS: Dict[str, Function] = {
    "colbert_scores": _colbert_scores,
    "colbert_kd_scores": _colbert_kd_scores,
    "colbert_scores_pairwise": _colbert_scores_pairwise,
}


def patch_pylate() -> None:
    """Makes PyLate (1.3 and later) score with maxsim_torch, on the CPU and on NVIDIA GPUs. This replaces
    colbert_scores, colbert_kd_scores and colbert_scores_pairwise, both in PyLate's modules and as defaults of
    arguments. A loss that was made before, with one of them as its score_metric, keeps PyLate's function.

    Scores and gradients are PyLate's, also with masks, except for the order of additions. Scores are in float32. If the
    similarities of several document tokens are equal, the first token gets the gradient. PyLate still computes what the
    operators do not support: float64, other devices, sizes beyond maxsim_scores, and calls for which `backend` or
    PYLATE_SCORES_BACKEND selects one of PyLate's own backends. A second call changes nothing. ImportError: PyLate is
    not installed.
    """
    if not _ORIGINAL:
        install(_ORIGINAL, _REPLACEMENTS)


def unpatch_pylate() -> None:
    """Gives PyLate its own functions back."""
    if _ORIGINAL:
        restore(_ORIGINAL, _REPLACEMENTS)
