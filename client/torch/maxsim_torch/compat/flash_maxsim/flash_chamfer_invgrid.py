"""Offers flash-maxsim's name for another backward pass of the Chamfer distance, which is here the same as
flash_chamfer_train. Also lists, for each point, the points whose nearest point it is."""

from __future__ import annotations

import torch
from torch import Tensor

from .flash_chamfer import flash_chamfer_train as flash_chamfer_invgrid_train

__all__ = ["build_chamfer_inverse_csr", "flash_chamfer_invgrid_train"]


def build_chamfer_inverse_csr(argmin: Tensor, n_dest: int) -> tuple[Tensor, Tensor]:
    """Returns (row_ptr [n_dest + 1], col_idx [N]) in int32. The sources i with argmin[i] = j are the entries
    col_idx[row_ptr[j]:row_ptr[j + 1]], in ascending order."""
    nearest = argmin.long().flatten()
    row_ptr = torch.nn.functional.pad(torch.bincount(nearest, minlength=n_dest).cumsum(0), (1, 0))
    if nearest.numel() <= torch.iinfo(torch.int32).max:
        row_ptr = row_ptr.to(torch.int32)
    return row_ptr, nearest.argsort(stable=True).to(torch.int32)
