"""The kind `arrow`: an Arrow IPC file or stream, a Feather file, or a folder of these, with one row per document."""

from __future__ import annotations

import os
from typing import Iterator, List

from maxsim.importers.tables.arrow_files import count_rows, read_batches, read_schema
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options
from maxsim.importers.tables.table_source import TABLE_OPTIONS, Batch, TableSource

_SUFFIXES = (".arrow", ".arrows", ".ipc", ".feather")


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the file `path`, or the Arrow files of a folder (known by their endings) in the order of their names."""
    check_options("arrow", options, TABLE_OPTIONS)
    paths = [path]
    if os.path.isdir(path):
        paths = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(_SUFFIXES)]
        if not paths:
            raise SourceError(f"{path}: holds no file that ends in {', '.join(_SUFFIXES)}")

    def open_batches(columns: List[str], rows_at_once: int) -> Iterator[Batch]:
        return read_batches(paths, columns)

    return TableSource("arrow", path, read_schema(paths[0]), count_rows(paths), open_batches, options)
