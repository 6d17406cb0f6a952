"""The backward pass of maxsim_torch, called with matches."""

from typing import Optional

from torch import Tensor

from .... import library
from ....operators import arguments_of, scores_backward
from ....pairing import Pairs
from ....tokens import as_booleans, plain_tokens
from .._scoring import same_type


def gradients(
    grad_scores: Tensor, Q: Tensor, D: Tensor, argmax: Tensor, q_mask: Optional[Tensor], kd_layout: bool
) -> "tuple[Tensor, Tensor]":
    """Returns the gradients of Q [Nq, Lq, d] and D, in their types, from the gradients of the scores [Nq, documents].

    D is [Nd, Ld, d] or, with `kd_layout`, [Nq * K, Ld, d]. `argmax` [Nq * documents, Lq] in int32 is what _run_forward
    returned; an entry of -1 has no gradient. Tokens that `q_mask` [Nq, Lq] leaves out have zero gradients.
    """
    num_queries, num_tokens = Q.shape[:2]
    list_length = D.shape[0] // num_queries if kd_layout else D.shape[0]
    queries, documents = same_type(Q, D)
    inputs = arguments_of(
        plain_tokens(queries, None if q_mask is None else as_booleans("q_mask", q_mask)),
        plain_tokens(documents),
        None,
        Pairs(None, library.LISTS if kd_layout else library.ALL, list_length),
    )
    of_queries, of_documents, _ = scores_backward.differentiate(
        inputs, (True, True, False), grad_scores.float(), argmax.reshape(num_queries, list_length, num_tokens)
    )
    return of_queries.to(Q.dtype), of_documents.to(D.dtype)
