"""Arrow IPC files, in the file format (which Feather uses) or the stream format. They are mapped, so that batches are
not copied."""

# pyright: reportMissingImports=false
from __future__ import annotations

import contextlib
from typing import Iterator, List, Sequence, Tuple

import pyarrow as pa

from maxsim.importers.readers.opening import open_regular
from maxsim.importers.source import SourceError
from maxsim.importers.tables.table_source import Batch

_FILE_MAGIC = b"ARROW1"
_FEATHER_V1_MAGIC = b"FEA1"


@contextlib.contextmanager
def _readable(path: str, fields: Sequence[int] = ()) -> Iterator[Tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yields the schema of a file of either format, and its batches: all columns, or those with the numbers
    `fields`."""
    with open_regular(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(_FEATHER_V1_MAGIC):
        raise SourceError(f"{path}: is Feather of version 1, which has no lists; write it with version 2")
    with pa.memory_map(path) if magic else contextlib.nullcontext() as mapped:
        if mapped is None:
            raise SourceError(f"{path}: is empty; an Arrow file or stream is expected")
        options = pa.ipc.IpcReadOptions(included_fields=list(fields))
        try:
            if magic == _FILE_MAGIC:
                reader = pa.ipc.open_file(mapped, options=options)
                yield reader.schema, (reader.get_batch(index) for index in range(reader.num_record_batches))
            else:
                stream = pa.ipc.open_stream(mapped, options=options)
                yield stream.schema, iter(stream)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{path}: is not a whole Arrow file or stream: {error}") from None


def read_schema(path: str) -> pa.Schema:
    with _readable(path) as (schema, _):
        return schema


def count_rows(paths: Sequence[str]) -> int:
    """Returns the number of rows of all files. Reads only one column of each file, if possible one that is not
    nested."""
    total = 0
    for path in paths:
        types = read_schema(path).types
        plain = [index for index, type in enumerate(types) if type.num_fields == 0]
        with _readable(path, plain[:1]) as (_, batches):
            total += sum(batch.num_rows for batch in batches)
    return total


def read_batches(paths: Sequence[str], columns: List[str]) -> Iterator[Batch]:
    """Yields the named columns of all files, one file after another."""
    for path in paths:
        first_row = 0
        names = read_schema(path).names
        missing = [name for name in columns if name not in names]
        if missing:
            raise SourceError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has")
        # Reads all columns, because reading some would copy whole batches out of the mapped file.
        with _readable(path) as (_, batches):
            for batch in batches:
                rows = batch.select(columns)
                # Without this check, offsets in a damaged file could point outside its memory.
                rows.validate(full=True)
                yield Batch(path, first_row, rows)
                first_row += batch.num_rows
