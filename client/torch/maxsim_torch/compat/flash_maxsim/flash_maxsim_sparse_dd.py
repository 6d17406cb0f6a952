"""The document rows that a batch matched, each with the list of its matches."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import require


def build_sparse_dd_tables(
    argmax: Tensor, Nq: int, B: int, Lq: int, Ld: int, shared_docs: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(perm, seg_start, seg_count, uniq_db, uniq_j) of argmax [pairs, Lq], where a pair is document * Nq + query with
    shared_docs, and query * B + document otherwise.

    `perm` [pairs * Lq] in int64 has the entries of the argmax in the order of the rows that they point to, and of
    entries of one row. The others are int32, a number for each row that is matched: where its entries begin in `perm`,
    how many they are, its document (a pair without shared_docs), and its token.
    """
    require(tuple(argmax.shape) == (Nq * B, Lq), f"argmax has the shape {tuple(argmax.shape)}; it is {(Nq * B, Lq)}")
    pair = torch.arange(Nq * B, device=argmax.device).unsqueeze(1)
    rows = ((pair // Nq if shared_docs else pair) * Ld + argmax).flatten()
    sorted_rows, perm = rows.sort(stable=True)
    matched, seg_count = torch.unique_consecutive(sorted_rows, return_counts=True)
    seg_start = seg_count.cumsum(0) - seg_count
    uniq_db, uniq_j = matched // Ld, matched % Ld
    seg_start, seg_count, uniq_db, uniq_j = (
        numbers.to(torch.int32) for numbers in (seg_start, seg_count, uniq_db, uniq_j)
    )
    return perm, seg_start, seg_count, uniq_db, uniq_j
