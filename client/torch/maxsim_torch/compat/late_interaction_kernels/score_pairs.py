"""Scores any pairs of packed queries and documents."""

from typing import Optional

import torch
from torch import Tensor

from ...call_state import can_read
from ...checks import explain_values
from ...functions import maxsim_scores_packed
from ._scoring import same_type
from ._utils import longest_sequence
from .varlen import check_packed


def score_pairs_packed(
    Q_packed: Tensor,
    D_packed: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_d: Tensor,
    pair_q_idx: Tensor,
    pair_d_idx: Tensor,
    *,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_d: Optional[int] = None,
) -> Tensor:
    """Returns scores [num_pairs] in float32: entry k is query pair_q_idx[k] with document pair_d_idx[k]. Both have
    gradients.

    Q_packed, D_packed, cu_seqlens and the upper limits are those of maxsim_varlen. Indices are integers [num_pairs].
    Documents are not copied; the queries of the pairs are, with `max_seqlen_q` tokens per pair. A pair with an empty
    query or document scores 0. If `max_seqlen_q` is None, the function reads the longest query's length, which waits
    for a GPU. ValueError: shapes do not fit or, on the CPU only, an index is out of range.
    """
    check_packed(Q_packed, D_packed)
    if pair_q_idx.dim() != 1 or pair_q_idx.shape != pair_d_idx.shape:
        raise ValueError(
            f"pair_q_idx and pair_d_idx must be vectors of one length; they are {tuple(pair_q_idx.shape)} and "
            f"{tuple(pair_d_idx.shape)}"
        )
    max_query_tokens = longest_sequence(cu_seqlens_q, max_seqlen_q, "max_seqlen_q")
    if max_seqlen_d is not None:
        longest_sequence(cu_seqlens_d, max_seqlen_d, "max_seqlen_d")
    Q_packed, D_packed = same_type(Q_packed, D_packed)
    if pair_q_idx.numel() == 0 or max_query_tokens == 0 or Q_packed.shape[0] == 0:
        # There is nothing to score. Adding sums of no rows gives the inputs gradients, which are zeros.
        return Q_packed.new_zeros(pair_q_idx.shape, dtype=torch.float32) + Q_packed[:0].sum() + D_packed[:0].sum()

    pair_q, pair_d = pair_q_idx.to(torch.int64), pair_d_idx.to(torch.int64)
    for name, index, offsets in (("pair_q_idx", pair_q, cu_seqlens_q), ("pair_d_idx", pair_d, cu_seqlens_d)):
        # Check here, because indexing accepts negative indices.
        if can_read(index) and (int(index.min()) < 0 or int(index.max()) > offsets.shape[0] - 2):
            explain_values(name, index, offsets.shape[0] - 2)
    cu_q, cu_d = cu_seqlens_q.to(torch.int64), cu_seqlens_d.to(torch.int64)
    # Rows after a query's last row belong to other queries. query_lengths excludes them. If pairs share a row, the
    # gradient of indexing adds their parts in a fixed order.
    rows = cu_q[pair_q].unsqueeze(1) + torch.arange(max_query_tokens, device=Q_packed.device)
    queries = Q_packed[rows.clamp_max(Q_packed.shape[0] - 1)]
    return maxsim_scores_packed(
        queries,
        D_packed,
        cu_d[pair_d],
        query_lengths=cu_q[pair_q + 1] - cu_q[pair_q],
        document_lengths=cu_d[pair_d + 1] - cu_d[pair_d],
        paired=True,
        empty_score=0.0,
    )


__all__ = ["score_pairs_packed"]
