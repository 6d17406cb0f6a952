"""The kind `npz`: an archive of NumPy arrays. Packed token vectors `tokens` with `lengths` or `offsets` and perhaps
`ids`, as `maxsim-shard build --input` takes them; padded ones with a mask; or an array a document, as np.savez(path,
**documents) writes them."""

from __future__ import annotations

from maxsim.importers.arrays.array_files import open_npz
from maxsim.importers.arrays.array_source import ARRAY_OPTIONS, open_array_source
from maxsim.importers.source import ImportOptions, Source, check_options


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the archive at `path`, stored or deflated."""
    check_options("npz", options, ARRAY_OPTIONS)
    return open_array_source("npz", path, open_npz(path), options)
