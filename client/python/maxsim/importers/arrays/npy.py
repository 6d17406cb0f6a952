"""The kind `npy`: a .npy file of packed token vectors [T, dim] with a file of lengths or offsets beside it, or a
folder with both. These are the files that `maxsim-shard build --tokens --lengths` takes."""

from __future__ import annotations

import os

import numpy as np

from maxsim.importers.arrays.array_files import open_npy
from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, LENGTH_NAMES, SCALES_NAME, VECTOR_NAMES, open_array_source
from maxsim.importers.readers.rows import RowArray
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens `path`. It is a file TOKENS.npy, whose lengths are in the file that --lengths names, or in lengths.npy or
    offsets.npy beside it. Or it is a folder, whose .npy files are named arrays."""
    check_options("npy", options, ARRAY_OPTIONS)
    members: dict[str, RowArray] = {}
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            if name.endswith(".npy"):
                members[name.removesuffix(".npy")] = open_npy(os.path.join(path, name))
        if not members:
            raise SourceError(f"{path}: holds no .npy file")
        return open_array_source("npy", path, members, options)
    members[VECTOR_NAMES[0]] = open_npy(path)
    for name in LENGTH_NAMES[:2]:
        beside = os.path.join(os.path.dirname(path), f"{name}.npy")
        if options.lengths is None and os.path.isfile(beside):
            members[name] = open_npy(beside)
    scales = os.path.join(os.path.dirname(path), f"{SCALES_NAME}.npy")
    if members[VECTOR_NAMES[0]].dtype == np.int8 and os.path.isfile(scales):
        members[SCALES_NAME] = open_npy(scales)
    return open_array_source("npy", path, members, options)
