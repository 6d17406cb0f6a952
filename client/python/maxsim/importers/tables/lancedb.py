"""The kind `lancedb`: a table of LanceDB with a multivector column, read with lancedb."""

# pyright: reportMissingImports=false
from __future__ import annotations

import os
from typing import Any, Iterator, List, Tuple

import lancedb
import pyarrow as pa

from maxsim.importers.readers.opening import check_folder
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options
from maxsim.importers.tables.table_source import TABLE_OPTIONS, Batch, TableSource

_SUFFIX = ".lance"
# Rows per batch: some megabytes of token vectors.
_BATCH_ROWS = 256


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the table that --table names, or the only one, of the database at `path`: a folder or an address (s3://,
    db://). `path` may also be the folder of a table, PATH/NAME.lance."""
    check_options("lancedb", options, (*TABLE_OPTIONS, "table"))
    path, name = _split(path, options)
    if "://" not in path and not os.path.isdir(path):
        raise SourceError(f"{path}: no such folder")
    is_local = "://" not in path
    try:
        database = lancedb.connect(path)
        names = _table_names(database)
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            raise SourceError(f"{path}: give --table, one of {', '.join(names) or 'none'}")
        if is_local:
            check_folder(os.path.join(path, f"{name}{_SUFFIX}"))
        table = database.open_table(name)
        schema, num_rows = table.schema, table.count_rows()
    except SourceError:
        raise
    except Exception as error:  # lancedb raises exceptions of its Rust core and of its server
        raise SourceError(f"{path}: cannot be read with lancedb: {error}") from None
    where = f"{path}: table {name}"

    def open_batches(columns: List[str], rows_at_once: int) -> Iterator[Batch]:
        return _read(where, table, columns, num_rows)

    return TableSource("lancedb", where, schema, num_rows, open_batches, options)


def _split(path: str, options: ImportOptions) -> Tuple[str, str | None]:
    """Returns the database and the table of a path that may name either."""
    trimmed = path.rstrip("/")
    if options.table is None and trimmed.endswith(_SUFFIX):
        return os.path.dirname(trimmed) or ".", os.path.basename(trimmed).removesuffix(_SUFFIX)
    return path, options.table


def _table_names(database: Any) -> List[str]:
    """Returns the names of all tables. lancedb lists them in pages."""
    if not hasattr(database, "list_tables"):
        return list(database.table_names(limit=1_000_000))
    names: List[str] = []
    token = None
    while True:
        page = database.list_tables(page_token=token)
        names += page.tables
        token = page.page_token
        if not token:
            return names


def _read(where: str, table: Any, columns: List[str], num_rows: int) -> Iterator[Batch]:
    first_row = 0
    try:
        # A search without a query is a scan. Without an explicit limit, it returns only a few rows.
        for rows in table.search().select(columns).limit(num_rows).to_batches(_BATCH_ROWS):
            yield Batch(where, first_row, pa.record_batch(rows.columns, schema=rows.schema))
            first_row += rows.num_rows
    except (RuntimeError, ValueError, OSError) as error:
        raise SourceError(f"{where}: after row {first_row}: {error}") from None
    if first_row != num_rows:
        raise SourceError(f"{where}: returned {first_row} of {num_rows} rows")
