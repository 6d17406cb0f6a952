"""The kind `npz`: an archive of NumPy arrays. It holds packed token vectors `tokens` with `lengths` or `offsets` and
perhaps `ids`, like the input of `maxsim-shard build --input`; padded vectors with a mask; or one array per document,
as np.savez(path, **documents) writes them."""

from __future__ import annotations

from maxsim.importers.arrays.array_files import open_npz
from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, open_array_source
from maxsim.importers.source import ImportOptions, Source, check_options


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the archive at `path`. Its members may be stored or deflated."""
    check_options("npz", options, ARRAY_OPTIONS)
    return open_array_source("npz", path, open_npz(path), options)
