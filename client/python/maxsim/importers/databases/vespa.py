"""The kind `vespa`: documents that `vespa visit` or a Vespa feed wrote. They are JSON, one per line or in an array,
or responses of /document/v1. PATH.gz is unpacked."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from maxsim.collection.errors import quote_id
from maxsim.importers.readers.json_values import json_values
from maxsim.importers.readers.rows import check_columns
from maxsim.importers.source import (
    ALL_COLUMNS,
    ImportOptions,
    Source,
    SourceDocument,
    SourceError,
    check_options,
    note_left,
)
from maxsim.importers.databases.vespa_tensors import TensorReader, is_vectors

# The value of --id-column that asks for Vespa's complete ids, id:NAMESPACE:TYPE:KEYS:NAME.
_WHOLE_ID = "documentid"


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the dump at `path`. --vectors-column names the field of the token vectors if several fields could be
    meant. --table selects the documents of one type. Ids are the last part of Vespa's ids (NAME of
    id:NAMESPACE:TYPE:KEYS:NAME), complete ids with --id-column documentid, or the values of the field that
    --id-column names."""
    takes = ("id_column", "vectors_column", "payload_columns", "table", "dim", "unpack_bits")
    check_options("vespa", options, takes)
    return _VespaSource(path, options)


class _VespaSource:
    kind = "vespa"

    def __init__(self, path: str, options: ImportOptions) -> None:
        self._path = path
        self._options = options
        self._unpack_bits = bool(options.unpack_bits)
        self.num_documents: Optional[int] = None
        self._field = options.vectors_column
        # The fields that are not imported of the first document with token vectors. A note of the import lists them.
        self._left: Sequence[str] = ()
        reader = TensorReader(options.dim, self._unpack_bits)
        self.dim = check_columns(path, self._find_dim(reader))
        self.notes: Sequence[str] = [f"{path}: field {self._field!r}, {reader.cell or 'numbers'}", self._describe_ids()]
        self.notes = [*self.notes, *note_left(self._left, "field")]
        if reader.cell == "int8" and not self._unpack_bits:
            self.notes.append("int8 cells are taken as numbers; --unpack-bits, where each is eight binary columns")

    def __iter__(self) -> Iterator[SourceDocument]:
        reader = TensorReader(self.dim, self._unpack_bits)
        assert self._field is not None, "it was found when the source was opened"
        for where, id, fields in self._documents():
            value = fields.get(self._field)
            vectors = np.empty((0, self.dim), np.float32)
            if value is not None and value != {}:
                vectors = reader.read(value, f"{where}: field {self._field!r}")
            yield SourceDocument(self._id(id, fields, where), vectors, self._payload(fields))

    def _documents(self) -> Iterator[Tuple[str, str, Dict[str, Any]]]:
        """Yields the place of each document for errors, its complete id and its fields."""
        number = 0
        for value in json_values(self._path):
            entries = value.get("documents", [value]) if isinstance(value, dict) else [value]
            for entry in entries if isinstance(entries, list) else [entries]:
                where = f"{self._path}: document {number}"
                number += 1
                id, fields = _open_document(entry, where)
                if self._options.table is None or _split_id(id, where)[1] == self._options.table:
                    yield f"{where}, {quote_id(id)}", id, fields

    def _find_dim(self, reader: TensorReader) -> int:
        """Returns the number of columns of the first token vector. Chooses the field if the user has not named
        one."""
        for where, _, fields in self._documents():
            field = self._field = self._field or self._find_field(where, fields)
            if field is not None and fields.get(field) and len(reader.read(fields[field], f"{where}: field {field!r}")):
                assert reader.dim is not None
                taken = (field, self._options.id_column, *self._options.payload_columns)
                if self._options.payload_columns != ALL_COLUMNS:
                    self._left = [name for name in fields if name not in taken]
                return reader.dim
        wanted = "that holds token vectors" if self._field is None else repr(self._field)
        raise SourceError(f"{self._path}: no document has a field {wanted}")

    def _find_field(self, where: str, fields: Mapping[str, Any]) -> Optional[str]:
        candidates = [name for name, value in fields.items() if is_vectors(value)]
        if len(candidates) > 1:
            raise SourceError(f"{where}: give --vectors-column, one of {', '.join(candidates)}")
        return candidates[0] if candidates else None

    def _id(self, id: str, fields: Mapping[str, Any], where: str) -> Union[str, int]:
        name = self._options.id_column
        if name is None:
            return _split_id(id, where)[3]
        if name == _WHOLE_ID:
            return id
        value = fields.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise SourceError(f"{where}: field {name!r} is {value!r:.80}; must be a string or an integer")
        return value

    def _describe_ids(self) -> str:
        if self._options.id_column is not None:
            return f"ids: {self._options.id_column}"
        return f"ids: the last part of Vespa's; --id-column {_WHOLE_ID} keeps all of it"

    def _payload(self, fields: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
        names: Union[Tuple[str, ...], List[str]] = self._options.payload_columns
        if names == ALL_COLUMNS:
            names = [name for name in fields if name != self._field]
        # Vespa omits fields without a value.
        return {name: fields[name] for name in names if name in fields} or None


def _open_document(entry: object, where: str) -> Tuple[str, Dict[str, Any]]:
    if not isinstance(entry, dict):
        raise SourceError(f"{where}: is {entry!r:.60}; must be an object")
    for operation in ("update", "remove"):
        if operation in entry:
            raise SourceError(
                f"{where}: holds the operation {operation!r} of {quote_id(entry[operation])}; "
                "only whole documents can be imported"
            )
    id = entry.get("put", entry.get("id"))
    fields = entry.get("fields")
    if not isinstance(id, str) or not isinstance(fields, dict):
        raise SourceError(
            f'{where}: must have "put" or "id" and "fields"; it has {", ".join(map(str, entry)) or "nothing"}'
        )
    return id, fields


def _split_id(id: str, where: str) -> List[str]:
    """Returns namespace, type, keys and name of a Vespa id. The name may contain colons."""
    parts = id.split(":", 4)
    if len(parts) != 5 or parts[0] != "id" or not parts[4]:
        raise SourceError(f"{where}: {quote_id(id)} is not id:NAMESPACE:TYPE:KEYS:NAME")
    return parts[1:]
