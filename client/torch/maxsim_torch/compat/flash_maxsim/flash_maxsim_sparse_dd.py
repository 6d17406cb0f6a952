"""Lists the document rows that a batch matched, each with its matches."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import require


def build_sparse_dd_tables(
    argmax: Tensor, Nq: int, B: int, Lq: int, Ld: int, shared_docs: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns (perm, seg_start, seg_count, uniq_db, uniq_j) for argmax [pairs, Lq]. A pair is document * Nq + query
    with shared_docs, and query * B + document otherwise.

    `perm` [pairs * Lq] in int64 has the indices of the argmax's entries, sorted by the row that an entry points to, and
    in their original order for the same row. The other four, in int32, have one number per matched row: where its
    entries begin in `perm`, how many they are, its document (without shared_docs: its pair), and its token.
    """
    require(tuple(argmax.shape) == (Nq * B, Lq), f"argmax has shape {tuple(argmax.shape)}; must be {(Nq * B, Lq)}")
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
