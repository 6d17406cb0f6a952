"""Calls the functions of residual_codes.h in libmaxsim.so, and defines the operators
torch.ops.maxsim_torch.residual_code_scores and residual_code_scores_backward. The public functions are in
residual_codes.py."""

import ctypes
import typing
from typing import NamedTuple, Optional, Sequence, Tuple

from torch import Tensor

from . import library
from .call_memory import INDEX_TYPES
from .direct_calls import empty_gradients, operator
from .operators import Call, empty_results_of
from .tokens import plain_tokens

# The numbers of residual_codes.h.
BIT_ORDERS = {"colbert": 0, "low_first": 1}
NBITS = {2: 1, 4: 2, 16: 4, 256: 8}  # by the number of bucket weights


class ResidualCodes(ctypes.Structure):
    """The structure maxsim_residual_codes: the tokens of all documents."""

    _fields_: typing.ClassVar = [
        *library.STRUCT_SIZE,
        *library.int32s("nbits", "bit_order", "number_type", "normalize"),
        *library.int64s("num_centroids"),
        *library.pointers("centroid_numbers", "residuals", "centroids", "bucket_weights"),
    ]


_PASSES = library.Passes(
    "maxsim_residual_codes", library.Call, library.Gradients, "maxsim_residual_codes_forward", ResidualCodes
)


class CodeScores(NamedTuple):
    """The arguments of torch.ops.maxsim_torch.residual_code_scores."""

    queries: Tensor
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    weights: Optional[Tensor]
    centroid_numbers: Tensor
    residuals: Tensor
    centroids: Tensor
    bucket_weights: Tensor
    document_offsets: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    candidates: Optional[Tensor]
    num_documents: int
    max_document_tokens: int
    pairing: int
    list_length: int
    empty_score: float
    normalize: bool
    bit_order: int
    with_argmax: bool


def _call(inputs: CodeScores) -> "tuple[Call, ResidualCodes]":
    """The structures of a call."""
    made = Call(
        inputs.queries.device,
        inputs.weights,
        inputs.candidates,
        inputs.pairing,
        inputs.list_length,
        inputs.empty_score,
    )
    made.call.queries = made.tokens(*plain_tokens(inputs.queries, inputs.query_mask, inputs.query_lengths))
    made.call.documents = made.tokens(
        inputs.centroid_numbers,
        inputs.document_offsets,
        inputs.document_mask,
        inputs.document_lengths,
        None,
        library.SCALE_PER_SEQUENCE,
        inputs.num_documents,
        inputs.max_document_tokens,
        vectors=inputs.queries,
    )
    codes = ResidualCodes(
        ctypes.sizeof(ResidualCodes),
        NBITS[inputs.bucket_weights.numel()],
        inputs.bit_order,
        INDEX_TYPES[inputs.centroid_numbers.dtype],
        int(inputs.normalize),
        inputs.centroids.shape[0],
        *map(made.address, (inputs.centroid_numbers, inputs.residuals, inputs.centroids, inputs.bucket_weights)),
    )
    return made, codes


@operator("residual_code_scores", empty_results_of)
def residual_code_scores(inputs: CodeScores) -> Tuple[Tensor, Tensor]:
    """Calls maxsim_residual_codes_forward. `queries` are [Nq, Lq, d], and centroids have their type. Returns scores
    [Nq, list_length] in float32 and the matches [Nq, list_length, Lq] in int32, which are empty without
    `with_argmax`."""
    results = empty_results_of(inputs)
    made, codes = _call(inputs)
    made.forward(_PASSES, results, codes)
    return results


@residual_code_scores.gradients(of=("queries", "weights"), without={"empty_score": 0.0, "with_argmax": True})
def residual_code_scores_backward(
    inputs: CodeScores, asked: Sequence[bool], score_gradients: Tensor, argmax: Tensor
) -> "Tuple[Tensor, ...]":
    """maxsim_residual_codes_backward: the gradients of queries and weights."""
    made, codes = _call(inputs)
    queries, weights = results = empty_gradients((inputs.queries, inputs.weights), asked)
    made.backward(_PASSES, (argmax, score_gradients), (queries, None, weights), codes, with_workspace=False)
    return results
