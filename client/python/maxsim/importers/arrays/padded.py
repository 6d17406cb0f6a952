"""The kind `padded`: one array [N, L, dim] of all documents, padded to the longest document, with a mask [N, L] or
lengths [N]."""

from __future__ import annotations

import os
from typing import Dict, Iterator, Mapping, Optional

import numpy as np

from maxsim.importers.arrays.array_files import open_npy, open_npz, open_safetensors
from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, MASK_NAMES, VECTOR_NAMES, open_array_source
from maxsim.importers.readers.rows import RowArray, block_rows
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options
from maxsim.importers.readers.torch_files import Tensor, load_torch

_SUFFIXES = (".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin")


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the array in the file at `path`. Members of the file with the usual names (vectors, mask or lengths, ids)
    are found automatically. For a .npy file, or if they are in other files, options name these files."""
    check_options("padded", options, ARRAY_OPTIONS)
    members = _open_members(path)
    three = [name for name, member in members.items() if len(member.shape) == 3]
    if options.vectors_column is None and len(three) != 1:
        raise SourceError(
            f"{path}: has {len(three)} arrays [N, L, dim]; name one of {', '.join(members)} as --vectors-column"
        )
    name = options.vectors_column or three[0]
    if name in members and len(members[name].shape) != 3:
        raise SourceError(f"{members[name].where}: has shape {list(members[name].shape)}; must be [N, L, dim]")
    # If the file has exactly one array of three dimensions, it holds the vectors, whatever its name.
    if name in members and options.vectors_column is None:
        members = {VECTOR_NAMES[0]: members[name], **{key: value for key, value in members.items() if key != name}}
    return open_array_source("padded", path, members, options)


def _open_members(path: str) -> Mapping[str, RowArray]:
    suffix = os.path.splitext(path)[1]
    if suffix == ".npy":
        members: Dict[str, RowArray] = {VECTOR_NAMES[0]: open_npy(path)}
        for name in (MASK_NAMES[0], "lengths"):
            beside = os.path.join(os.path.dirname(path), f"{name}.npy")
            if os.path.isfile(beside):
                members[name] = open_npy(beside)
        return members
    if suffix == ".npz":
        return dict(open_npz(path))
    if suffix == ".safetensors":
        return dict(open_safetensors(path))
    if suffix in _SUFFIXES:
        return _open_torch(path)
    raise SourceError(f"{path}: ends in {suffix or 'nothing'}, a padded array in {', '.join(_SUFFIXES)}")


class _TorchRows:
    """A tensor in a mapped file of torch.save, as a RowArray."""

    def __init__(self, where: str, tensor: Tensor) -> None:
        self.where = where
        self.shape = tensor.shape
        self.dtype = tensor.rows(0, 0).array().dtype
        self._tensor = tensor

    def blocks(self, rows_at_once: Optional[int] = None) -> Iterator[np.ndarray]:
        rows = rows_at_once or block_rows(self.shape, self.dtype)
        for first in range(0, self.shape[0], rows):
            yield self._tensor.rows(first, min(first + rows, self.shape[0])).array()

    def read(self) -> np.ndarray:
        return self._tensor.array()


def _open_torch(path: str) -> Mapping[str, RowArray]:
    """Opens the tensors of a file that holds one tensor, or a dictionary of tensors."""
    value = load_torch(path)
    if isinstance(value, Tensor):
        value = {VECTOR_NAMES[0]: value}
    if not isinstance(value, dict):
        raise SourceError(f"{path}: holds a {type(value).__name__}; must hold a tensor or a dictionary of tensors")
    return {
        str(name): _TorchRows(f"{path}: {name}", tensor)
        for name, tensor in value.items()
        if isinstance(tensor, Tensor) and tensor.shape
    }
