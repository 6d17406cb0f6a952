"""Documents of a table in Arrow's memory: one row per document, with columns of ids, token vectors and payload."""

# pyright: reportMissingImports=false
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import pyarrow as pa

from maxsim.importers.tables.arrow_vectors import VectorColumn, is_flattened, is_vectors
from maxsim.importers.readers.prefetch import prefetched
from maxsim.importers.readers.rows import BLOCK_BYTES
from maxsim.importers.source import ALL_COLUMNS, ImportOptions, PackedDocuments, PackedSource, SourceError, note_left
from maxsim.importers.tables.table_ids import check_ids, choose_ids, id_values

# The import options of a kind whose source is a table.
TABLE_OPTIONS = ("id_column", "vectors_column", "payload_columns", "dim")
# The number of columns that a message names.
_MAX_COLUMNS = 20
# The number of rows that are converted in one step, which bounds NumPy's memory.
_SLICE_ROWS = 1024


@dataclasses.dataclass(frozen=True)
class Batch:
    """Rows of a table. where is the file that they come from, and first_row the number of their first row in that
    file."""

    where: str
    first_row: int
    rows: pa.RecordBatch


# Reads the named columns, in batches of about the given number of rows.
OpenBatches = Callable[[List[str], int], Iterator[Batch]]


class TableSource(PackedSource):
    """Documents of a table. `open_batches` yields the table's batches. num_rows is None if unknown."""

    def __init__(
        self,
        kind: str,
        where: str,
        schema: pa.Schema,
        num_rows: Optional[int],
        open_batches: OpenBatches,
        options: ImportOptions,
        bytes_per_row: Optional[float] = None,
    ) -> None:
        self.kind = kind
        self.num_documents = num_rows
        self._open_batches = open_batches
        self._options = options
        self._vectors = _choose_vectors(where, schema, options)
        self._ids = _choose_ids(where, schema, options)
        self._payloads = _choose_payloads(where, schema, options, self._vectors, self._ids)
        self._rows_at_once = max(1, min(65_536, int(BLOCK_BYTES / bytes_per_row))) if bytes_per_row else _SLICE_ROWS
        self._column = VectorColumn(f"{where}: column {self._vectors!r}", schema.field(self._vectors).type, options.dim)
        self.dim = self._column.dim if self._column.dim is not None else self._find_dim(where)
        self.notes: Sequence[str] = [
            f"vectors: column {self._vectors!r}, {schema.field(self._vectors).type}",
            f"ids: column {self._ids!r}"
            if self._ids
            else "ids: the documents are numbered from 0, no column is named id",
            *note_left([n for n in schema.names if n not in (self._vectors, self._ids, *self._payloads)]),
        ]

    def packed(self) -> Iterator[PackedDocuments]:
        columns = [self._vectors, *([self._ids] if self._ids else []), *self._payloads]
        number = 0
        for batch in prefetched(self._open_batches(list(dict.fromkeys(columns)), self._rows_at_once)):
            for at in range(0, batch.rows.num_rows, _SLICE_ROWS):
                rows = batch.rows.slice(at, _SLICE_ROWS)
                yield self._documents(Batch(batch.where, batch.first_row + at, rows), number)
                number += rows.num_rows

    def _documents(self, batch: Batch, number: int) -> PackedDocuments:
        rows = batch.rows
        vectors, lengths = self._vector_column(batch).packed(rows.column(self._vectors), batch.first_row)
        ids: Sequence[Any] = range(number, number + rows.num_rows)
        if self._ids:
            ids = id_values(f"{batch.where}: column {self._ids!r}", rows.column(self._ids), batch.first_row)
        if not self._payloads:
            return PackedDocuments(ids, vectors, lengths)
        values = zip(*(rows.column(name).to_pylist() for name in self._payloads))
        return PackedDocuments(ids, vectors, lengths, [dict(zip(self._payloads, row)) for row in values])

    def _vector_column(self, batch: Batch) -> VectorColumn:
        type = batch.rows.schema.field(self._vectors).type
        column = VectorColumn(f"{batch.where}: column {self._vectors!r}", type, self._options.dim)
        if column.dim is None:
            column.dim = self.dim
        elif column.dim != self.dim:
            raise SourceError(
                f"{batch.where}: column {self._vectors!r} has {column.dim} columns, but those before have {self.dim}"
            )
        return column

    def _find_dim(self, where: str) -> int:
        """Returns the number of columns of the first token vector. For lists of lists, only the values tell it."""
        for batch in self._open_batches([self._vectors], _SLICE_ROWS):
            self._column.packed(batch.rows.column(self._vectors), batch.first_row)
            if self._column.dim is not None:
                return self._column.dim
        raise SourceError(f"{where}: column {self._vectors!r}: no row has a token vector")


def _check_column(where: str, schema: pa.Schema, name: str) -> str:
    if schema.get_all_field_indices(name) == []:
        raise SourceError(f"{where}: has no column {name!r}; it has {', '.join(schema.names) or 'none'}")
    return name


def _choose_vectors(where: str, schema: pa.Schema, options: ImportOptions) -> str:
    if options.vectors_column is not None:
        return _check_column(where, schema, options.vectors_column)
    candidates = [field.name for field in schema if is_vectors(field.type)]
    if not candidates:
        candidates = [field.name for field in schema if is_flattened(field.type)]
    if not candidates:
        raise SourceError(
            f"{where}: no column holds token vectors, which are a list of lists of float16, float32 or float64, or "
            f"with --dim a list of them; it has {_typed(schema, schema.names) or 'no column'}"
        )
    if len(candidates) > 1:
        raise SourceError(
            f"{where}: {len(candidates)} columns may hold token vectors; name one with --vectors-column: "
            f"{_typed(schema, candidates)}"
        )
    return str(candidates[0])


def _typed(schema: pa.Schema, names: Sequence[str]) -> str:
    """Returns columns with their types, for a message. If there are many, only some of them."""
    shown = [f"{field.name} ({str(field.type):.100})" for field in schema if field.name in names][:_MAX_COLUMNS]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _choose_ids(where: str, schema: pa.Schema, options: ImportOptions) -> Optional[str]:
    if options.id_column is not None:
        name = _check_column(where, schema, options.id_column)
        check_ids(f"{where}: column {name!r}", schema.field(name).type)
        return name
    return choose_ids(where, schema)


def _choose_payloads(
    where: str, schema: pa.Schema, options: ImportOptions, vectors: str, ids: Optional[str]
) -> Tuple[str, ...]:
    if options.payload_columns == ALL_COLUMNS:
        return tuple(name for name in schema.names if name not in (vectors, ids))
    return tuple(_check_column(where, schema, name) for name in options.payload_columns)
