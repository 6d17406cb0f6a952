"""Makes colpali-engine use maxsim_torch's operators, in its late-interaction losses and the scores of its processors.

    from maxsim_torch import patch_colpali_engine, unpatch_colpali_engine

    patch_colpali_engine()
    loss = ColbertPairwiseCELoss()(queries, documents)     # as before, without a matrix of similarities
    unpatch_colpali_engine()

colpali-engine writes similarities with torch.einsum, takes their maxima over document tokens, and sums these over
query tokens. While one of its patched functions runs, such an einsum returns a _Similarities, which has not been
computed. Its maximum is a _Best, and the sum of that is maxsim_scores. Any other operation on a _Similarities
computes it.
"""

import functools
import importlib
import os
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .functions import maxsim_scores
from .replacing import Function, computable, in_the_type_of_products, replace

# Decides whether maxsim_scores can take the queries and documents.
Takes = Callable[[Tensor, Tensor], bool]

# colpali-engine's own functions while they are replaced, by "Class.method" or by function name.
_ORIGINAL: Dict[str, Function] = {}

_PROCESSOR = "BaseVisualRetrieverProcessor"
_MODULES = {
    "ColbertLoss": "colpali_engine.loss.late_interaction_losses",
    "ColbertNegativeCELoss": "colpali_engine.loss.late_interaction_losses",
    "ColbertPairwiseCELoss": "colpali_engine.loss.late_interaction_losses",
    "ColbertPairwiseNegativeCELoss": "colpali_engine.loss.late_interaction_losses",
    "ColbertSigmoidLoss": "colpali_engine.loss.late_interaction_losses",
    _PROCESSOR: "colpali_engine.utils.processing_utils",
}
LOSSES = tuple(name for name in _MODULES if name != _PROCESSOR)


class _Layout(NamedTuple):
    """How an equation of einsum pairs queries and documents, and the dimensions of its result."""

    paired: bool
    query_dim: int
    document_dim: int


@functools.lru_cache(maxsize=None)
def _layout(equation: str) -> Optional[_Layout]:
    """Returns the layout of the similarities that an equation computes, or None if it computes something else.
    Queries are "bnd". Documents are "csd" (shared by all queries), "bsd" (one per query) or "bcsd" (a list per
    query). Any letters may be used."""
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    queries, comma, documents = inputs.partition(",")
    if not arrow or not comma or len(queries) != 3 or len(set(queries)) != 3 or documents[-1:] != queries[-1]:
        return None
    batch, token = queries[0], queries[1]
    outer, document_token = documents[:-2], documents[-2:-1]
    if len(set(documents)) != len(documents) or token in documents:
        return None
    if outer == batch:
        wanted, paired = batch + token + document_token, True
    elif len(outer) == 1:
        wanted, paired = batch + outer + token + document_token, False
    elif len(outer) == 2 and outer[0] == batch:
        wanted, paired = outer + token + document_token, False
    else:
        return None
    return _Layout(paired, len(wanted) - 2, len(wanted) - 1) if result == wanted else None


class _Similarities:
    """Similarities of queries and documents. They are computed only if something other than their maxima is
    needed."""

    def __init__(self, equation: str, layout: _Layout, queries: Tensor, documents: Tensor):
        self._equation = equation
        self.layout = layout
        self.queries = queries
        self.documents = documents

    def computed(self) -> Tensor:
        with torch._C.DisableTorchFunction():
            similarities: Tensor = torch.einsum(self._equation, self.queries, self.documents)
        return similarities

    def amax(self, dim: int) -> Any:
        if dim % (self.layout.document_dim + 1) != self.layout.document_dim:
            return self.computed().amax(dim)
        return _Best(self)

    def max(self, dim: int) -> Any:
        """Returns a tuple whose entry 0 has the maxima, like Tensor.max. Maxima over document tokens come without
        indices."""
        if dim % (self.layout.document_dim + 1) != self.layout.document_dim:
            return self.computed().max(dim)
        return (_Best(self),)

    def __truediv__(self, other: Any) -> Any:
        return self.computed() / other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.computed(), name)


class _Best:
    """The best similarity of each query token, which is not computed: its sum over query tokens is the score."""

    def __init__(self, similarities: _Similarities):
        self._similarities = similarities

    def computed(self) -> Tensor:
        return self._similarities.computed().amax(self._similarities.layout.document_dim)

    def sum(self, dim: int) -> Tensor:
        given = self._similarities
        if dim % given.layout.document_dim != given.layout.query_dim:
            return self.computed().sum(dim)
        return maxsim_scores(given.queries, given.documents, paired=given.layout.paired)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.computed(), name)


class _Scoring(TorchFunctionMode):
    """While this mode is active in a thread, an einsum of similarities returns a _Similarities if `takes(queries,
    documents)` is true."""

    def __init__(self, takes: Takes):
        super().__init__()
        self._takes = takes

    def __torch_function__(self, func: Any, types: Any, args: "Tuple[Any, ...]" = (), kwargs: Any = None) -> Any:
        if func is torch.einsum and len(args) == 3 and isinstance(args[0], str):
            queries, documents = (in_the_type_of_products(tensor) for tensor in args[1:])
            layout = _layout(args[0])
            if layout is not None and computable(queries, documents) and self._takes(queries, documents):
                return _Similarities(args[0], layout, queries, documents)
        return func(*args, **(kwargs or {}))


def scoring_forward(loss: str, originals: Dict[str, Function], takes: Takes) -> Function:
    """Returns a forward for the loss of this name, which runs the one in `originals` without writing similarities.
    Smooth maxima need all similarities, and write them."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        original = originals[f"{loss}.forward"]
        if self.use_smooth_max:
            return original(self, *args, **kwargs)
        with _Scoring(takes):
            return original(self, *args, **kwargs)

    return forward


def scoring_processor(originals: Dict[str, Function], takes: Takes) -> Function:
    """Returns a score_multi_vector for processors, which runs the one in `originals` without writing similarities."""

    def score_multi_vector(*args: Any, **kwargs: Any) -> Any:
        with _Scoring(takes):
            return originals[f"{_PROCESSOR}.score_multi_vector"](*args, **kwargs)

    return score_multi_vector


def install(originals: Dict[str, Function], methods: Dict[str, Function]) -> None:
    """Replaces methods, named by "Class.method", and keeps colpali-engine's own in `originals`. ImportError or
    AttributeError: one of them does not exist, and nothing was replaced."""
    owners = {key: getattr(importlib.import_module(_MODULES[key.split(".")[0]]), key.split(".")[0]) for key in methods}
    originals.update({key: getattr(owner, key.split(".")[1]) for key, owner in owners.items()})
    _set(owners, methods)


def restore(originals: Dict[str, Function], methods: Dict[str, Function]) -> None:
    """Undoes install."""
    owners = {key: getattr(importlib.import_module(_MODULES[key.split(".")[0]]), key.split(".")[0]) for key in methods}
    _set(owners, {key: originals.pop(key) for key in methods})


def _set(owners: "Dict[str, Any]", methods: Dict[str, Function]) -> None:
    for key, owner in owners.items():
        static = key.startswith(_PROCESSOR)
        setattr(owner, key.split(".")[1], staticmethod(methods[key]) if static else methods[key])


def _takes(queries: Tensor, documents: Tensor) -> bool:
    """Returns whether maxsim_torch scores the tensors: yes, unless COLPALI_SCORES_BACKEND selects a backend of
    colpali-engine."""
    return os.environ.get("COLPALI_SCORES_BACKEND", "auto").lower() == "auto"


def _scores(name: str, num_dimensions: int, query: Tensor, doc: Tensor) -> Tensor:
    queries, documents = in_the_type_of_products(query), in_the_type_of_products(doc)
    if doc.dim() != num_dimensions or not computable(queries, documents) or not _takes(queries, documents):
        scores: Tensor = _ORIGINAL[name](query, doc)
        return scores
    return maxsim_scores(queries, documents)


def _maxsim_inbatch(query: Tensor, doc: Tensor) -> Tensor:
    """Replaces colpali_engine.utils.maxsim.maxsim_inbatch. Returns scores [queries, documents] in float32."""
    return _scores("maxsim_inbatch", 3, query, doc)


def _maxsim_kd(query: Tensor, doc: Tensor) -> Tensor:
    """Replaces colpali_engine.utils.maxsim.maxsim_kd. Returns scores [queries, documents of each] in float32."""
    return _scores("maxsim_kd", 4, query, doc)


_METHODS: Dict[str, Function] = {
    **{f"{loss}.forward": scoring_forward(loss, _ORIGINAL, _takes) for loss in LOSSES},
    f"{_PROCESSOR}.score_multi_vector": scoring_processor(_ORIGINAL, _takes),
}
# From 0.3.17 on colpali-engine scores through these functions.
_FUNCTIONS: Dict[str, Function] = {"maxsim_inbatch": _maxsim_inbatch, "maxsim_kd": _maxsim_kd}


def patch_colpali_engine() -> None:
    """Makes colpali-engine (0.3.10 and later) score with maxsim_torch, on the CPU and on NVIDIA GPUs. This affects
    the five late-interaction losses, and score_multi_vector of every processor.

    Losses, scores and gradients are colpali-engine's, except for the order of additions. Scores are in float32. If
    the similarities of several document tokens are equal, the first token gets the gradient. colpali-engine still
    computes what the operators do not support: smooth maxima, float64, other devices, sizes beyond maxsim_scores, and
    everything while COLPALI_SCORES_BACKEND selects one of its own backends. A second call changes nothing.
    ImportError: colpali-engine is not installed.
    """
    if _ORIGINAL:
        return
    install(_ORIGINAL, _METHODS)
    try:
        functions = importlib.import_module("colpali_engine.utils.maxsim")
    except ImportError:
        return  # a release before 0.3.17
    for name, new in _FUNCTIONS.items():
        _ORIGINAL[name] = getattr(functions, name)
        replace("colpali_engine", name, _ORIGINAL[name], new)


def unpatch_colpali_engine() -> None:
    """Restores colpali-engine's own functions."""
    if not _ORIGINAL:
        return
    restore(_ORIGINAL, _METHODS)
    for name, old in _ORIGINAL.items():
        replace("colpali_engine", name, _FUNCTIONS[name], old)
    _ORIGINAL.clear()
