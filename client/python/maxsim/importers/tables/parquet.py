"""The kind `parquet`: a Parquet file or a folder of them, with one row per document."""

# pyright: reportMissingImports=false
from __future__ import annotations

import glob
import os
from typing import Iterator, List, Optional

import pyarrow as pa
import pyarrow.parquet as pq

from maxsim.importers.readers.opening import check_regular
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options
from maxsim.importers.tables.table_source import TABLE_OPTIONS, Batch, TableSource

# Bytes of a column chunk that are read in one step. Without this limit, pyarrow reads the whole chunk of a row group,
# which by default has a million rows.
_BUFFER_BYTES = 1 << 20


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the file `path`, or all files PATH/**/*.parquet of a folder in the order of their names."""
    check_options("parquet", options, TABLE_OPTIONS)
    paths = [path]
    if os.path.isdir(path):
        paths = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True))
        if not paths:
            raise SourceError(f"{path}: holds no .parquet file")
    num_rows = 0
    for file_path in paths:
        with _open(file_path) as file:
            num_rows += file.metadata.num_rows

    def open_batches(columns: List[str], rows_at_once: int) -> Iterator[Batch]:
        for file_path in paths:
            first_row = 0
            with _open(file_path) as file:
                missing = [name for name in columns if name not in file.schema_arrow.names]
                if missing:
                    raise SourceError(f"{file_path}: has no column {missing[0]!r}, which {paths[0]} has")
                try:
                    for rows in file.iter_batches(batch_size=rows_at_once, columns=columns, use_threads=False):
                        yield Batch(file_path, first_row, rows)
                        first_row += rows.num_rows
                except (pa.ArrowException, OSError) as error:
                    raise SourceError(f"{file_path}: after row {first_row}: {error}") from None

    with _open(paths[0]) as file:
        schema = file.schema_arrow
        return TableSource("parquet", path, schema, num_rows, open_batches, options, _bytes_per_row(file))


def _open(path: str) -> pq.ParquetFile:
    check_regular(path)  # pyarrow's own error for a missing file does not name it
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: is not a Parquet file: {error}") from None


def _bytes_per_row(file: pq.ParquetFile) -> Optional[float]:
    """Returns the size of a row, as the metadata of the first row group gives it."""
    metadata = file.metadata
    if metadata.num_row_groups == 0 or metadata.row_group(0).num_rows == 0:
        return None
    group = metadata.row_group(0)
    num_bytes = sum(group.column(index).total_uncompressed_size for index in range(group.num_columns))
    return float(max(1.0, num_bytes / group.num_rows))
