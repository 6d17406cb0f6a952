"""Ids in an Arrow column: chooses the column, and converts its values to strings or integers."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import pyarrow as pa

from maxsim.importers.tables.arrow_vectors import storage_type
from maxsim.importers.source import ID_NAMES, SourceError, first_named

_UUID = "arrow.uuid"


def choose_ids(where: str, schema: pa.Schema) -> Optional[str]:
    """Returns the column named like an id column, or None if there is none. Raises SourceError if its type cannot hold
    ids, because numbering the documents instead would lose their ids."""
    name = first_named(ID_NAMES, schema.names)
    if name is not None:
        check_ids(f"{where}: column {name!r}", schema.field(name).type)
    return name


def check_ids(where: str, arrow_type: Any) -> None:
    """Raises SourceError if a column of this type cannot hold ids."""
    _converter(where, arrow_type)


def id_values(where: str, column: Any, first_row: int) -> Sequence[Any]:
    """Returns the ids in a column, as strings or integers. Raises SourceError if one is null."""
    convert = _converter(where, column.type)
    values: List[Any] = column.to_pylist()
    if None in values:
        row = first_row + values.index(None)
        raise SourceError(f"{where}: row {row} is null, but each document needs an id")
    if convert is None:
        return values
    ids: List[Any] = []
    for row, value in enumerate(values, first_row):
        try:
            ids.append(convert(value))
        except UnicodeDecodeError:
            raise SourceError(f"{where}: row {row} is not UTF-8: {value[:40]!r}") from None
    return ids


def _converter(where: str, arrow_type: Any) -> Optional[Callable[[Any], Any]]:
    """Returns a function from a value of this type to an id, or None if the values already are ids."""
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType) and arrow_type.extension_name == _UUID:
        return str
    plain = storage_type(arrow_type)
    if types.is_dictionary(plain) or (hasattr(types, "is_run_end_encoded") and types.is_run_end_encoded(plain)):
        return _converter(where, plain.value_type)
    if types.is_integer(plain) or types.is_string(plain) or types.is_large_string(plain) or _is_view(plain, "string"):
        return None
    if types.is_binary(plain) or types.is_large_binary(plain) or _is_view(plain, "binary"):
        return lambda value: value.decode()
    if types.is_decimal(plain) and plain.scale == 0:
        return int
    hint = ""
    if types.is_floating(plain):
        hint = "; pandas stores integers as floating-point numbers where one is missing, DuckDB stores HUGEINT so"
    raise SourceError(
        f"{where}: is {arrow_type}; must be integers or strings: cast it, or name another column with --id-column{hint}"
    )


def _is_view(arrow_type: Any, kind: str) -> bool:
    """Returns True for Arrow's string_view and binary_view. Polars writes them, and old releases of pyarrow do not know
    them."""
    is_kind = getattr(pa.types, f"is_{kind}_view", None)
    return bool(is_kind is not None and is_kind(arrow_type))
