"""Offers flash-maxsim's name for another backward pass, which is here the same as flash_maxsim_batched_train. Also
lists the matches of each document row."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import require
from .flash_maxsim_batched_train import flash_maxsim_batched_train as flash_maxsim_invgrid_train

__all__ = ["build_inverse_csr", "flash_maxsim_invgrid_train"]


def build_inverse_csr(argmax: Tensor, Nq: int, B: int, Lq: int, Ld: int, shared_docs: bool) -> tuple[Tensor, Tensor]:
    """Returns the matches of each document row as (row_ptr, col_idx) of a CSR matrix, in int32 if the number of matches
    allows it.

    `argmax` is [pairs, Lq]. With shared_docs, pair document * Nq + query has a row; row_ptr is [B * Ld + 1], and an
    entry of col_idx is query * Lq + token. Otherwise, pair query * B + document has a row; row_ptr is [Nq * B * Ld +
    1], and an entry is the query's token. The entries of a row are in the order of pairs and tokens.
    """
    require(tuple(argmax.shape) == (Nq * B, Lq), f"argmax has shape {tuple(argmax.shape)}; must be {(Nq * B, Lq)}")
    pair = torch.arange(Nq * B, device=argmax.device).unsqueeze(1)
    token = torch.arange(Lq, device=argmax.device)
    document = pair // Nq if shared_docs else pair
    sources = pair % Nq * Lq + token if shared_docs else token.expand(Nq * B, Lq)
    rows = (document * Ld + argmax).flatten()
    num_rows = (B if shared_docs else Nq * B) * Ld
    row_ptr = torch.nn.functional.pad(torch.bincount(rows, minlength=num_rows).cumsum(0), (1, 0))
    if rows.numel() <= torch.iinfo(torch.int32).max:
        row_ptr = row_ptr.to(torch.int32)
    return row_ptr, sources.flatten()[rows.argsort(stable=True)].to(torch.int32)
