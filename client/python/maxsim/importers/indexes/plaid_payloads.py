"""The payloads of fast-plaid and NextPlaid: the table METADATA in metadata.db, with one row per document."""

from __future__ import annotations

import sqlite3
from typing import Dict, Iterator, List, Mapping, Sequence

from maxsim.importers.indexes.index_files import open_table
from maxsim.importers.source import SourceError
from maxsim.unique_json import RepeatedKeyError, parse_json

# The column with a document's number.
_NUMBER = "_subset_"
# NextPlaid keeps long columns in a second table. Both tables have this column, which joins them.
_CONTENT_TABLE = "METADATA_CONTENT"
_CONTENT = "_content_id_"


class PayloadTable:
    """columns: the names of the payload's fields."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open_table(path, "METADATA", _CONTENT_TABLE) as table:
            self._types = _column_types(table, "METADATA")
            content = _column_types(table, _CONTENT_TABLE)
        if _NUMBER not in self._types:
            raise SourceError(f"{path}: has no table METADATA with the column {_NUMBER}")
        self._has_content = _CONTENT in self._types and _CONTENT in content
        self._types.update(content)
        self.columns: List[str] = [name for name in self._types if name not in (_NUMBER, _CONTENT)]

    def check(self, columns: Sequence[str]) -> None:
        """SourceError if the table lacks one of `columns`."""
        for name in columns:
            if name not in self.columns:
                raise SourceError(
                    f"{self._path}: has no column {name!r}; there are {', '.join(self.columns) or 'none'}"
                )

    def rows(self, num_documents: int) -> Iterator[Mapping[str, object]]:
        """Yields the fields of each document, in the order of the documents' numbers. Leaves out fields that are
        null."""
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in self.columns)
        tables = f"METADATA JOIN {_CONTENT_TABLE} USING ({_CONTENT})" if self._has_content else "METADATA"
        query = f"SELECT {_NUMBER}{', ' if names else ''}{names} FROM {tables} ORDER BY {_NUMBER}"
        number = 0
        with open_table(self._path, "METADATA", _CONTENT_TABLE) as table:
            for row in table.execute(query):
                if not isinstance(row[0], int) or row[0] < number:
                    continue
                yield from ({} for _ in range(number, min(row[0], num_documents)))
                number = row[0] + 1
                if row[0] < num_documents:
                    yield self._fields(row[1:])
        yield from ({} for _ in range(number, num_documents))

    def _fields(self, values: Sequence[object]) -> Mapping[str, object]:
        fields: Dict[str, object] = {}
        for name, value in zip(self.columns, values):
            if isinstance(value, str) and self._types[name] == "BLOB" and value[:1] in ("[", "{"):
                value = self._parsed(name, value)
            if value is not None:
                fields[name] = value
        return fields

    def _parsed(self, column: str, text: str) -> object:
        """Parses the lists and objects that NextPlaid writes as JSON."""
        try:
            value: object = parse_json(text)
            return value
        except RepeatedKeyError as error:
            raise SourceError(f"{self._path}: column {column!r}: {error}") from None
        except (ValueError, RecursionError):
            return text


def _column_types(table: sqlite3.Connection, name: str) -> Dict[str, str]:
    return {str(row[1]): str(row[2]).upper() for row in table.execute(f"PRAGMA table_info({name})")}
