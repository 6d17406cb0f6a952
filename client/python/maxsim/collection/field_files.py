"""Writes the files of fields for complete shards (docs/reference/formats.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .batch import WORD_BYTES, Layout
from .checksum import Checksum
from .errors import CollectionError
from .fields import Field, FieldReader, Value, format_fields
from .folder import TEMPORARY_SUFFIX, create_file, field_file_name, write_all
from .manifest import FileEntry, ShardEntry
from .stored_shard import StoredShard

_ALIGNMENT = 64


def write_fields(
    folder: Path, generation: int, index: int, layout: Layout, fields: tuple[Field, ...], entry: ShardEntry
) -> FileEntry:
    """Writes the fields of a complete shard. Returns their file, which is complete and has its final name. Holds the
    values of all documents of the shard in memory."""
    reader = FieldReader(fields)
    columns: list[list[Value]] = [[] for _ in fields]
    for document, text in enumerate(StoredShard(folder / entry.file, layout).payloads()):
        try:
            values = reader.read(json.loads(text) if text else None)
        except CollectionError as error:
            raise CollectionError(f"document {document} of {entry.file}: {error}") from None
        for column, value in zip(columns, values):
            column.append(value)
    tensors: Any = []
    for field, column in zip(fields, columns):
        tensors += [(f"{field.name}.{part}", dtype, array) for part, dtype, array in _parts(field.kind, column)]
    data = _header(fields, tensors) + b"".join(array.tobytes() for _, _, array in tensors)
    checksum = Checksum()
    checksum.update(data)
    name = field_file_name(generation, index)
    fd = create_file(folder / (name + TEMPORARY_SUFFIX))
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(folder / (name + TEMPORARY_SUFFIX), folder / name)
    return FileEntry(name, len(data), checksum.format())


def _header(fields: tuple[Field, ...], tensors: Any) -> bytes:
    values: dict[str, Any] = {
        "__metadata__": {"format": "maxsim-fields", "format_version": "1", "fields": format_fields(fields)}
    }
    begin = 0
    for name, dtype, array in tensors:
        values[name] = {"dtype": dtype, "shape": [len(array)], "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
    size = -(-(WORD_BYTES + len(text)) // _ALIGNMENT) * _ALIGNMENT - WORD_BYTES
    return size.to_bytes(WORD_BYTES, "little") + text.ljust(size)


def _parts(kind: str, column: list[Value]) -> Any:
    """Returns the tensors of a field's column: for each, the end of its name, its type and its elements."""
    if kind in ("keyword", "keywords"):
        return _term_parts(kind, column)
    has_value = [value is not None for value in column]
    present = ("present", "U8", np.packbits(has_value, bitorder="little"))
    plain: Any = [value if value is not None else 0 for value in column]
    if kind == "boolean":
        return [("values", "U8", np.packbits(np.array(plain, dtype=bool), bitorder="little")), present]
    dtype, array = ("F64", np.array(plain, "<f8")) if kind == "number" else ("I64", np.array(plain, "<i8"))
    return [("values", dtype, array), present]


def _term_parts(kind: str, column: list[Value]) -> Any:
    lists: Any = [[] if value is None else [value] if kind == "keyword" else value for value in column]
    terms = sorted({term for terms in lists for term in terms})
    numbers = {term: number for number, term in enumerate(terms)}
    encoded = [term.encode() for term in terms]
    term_offsets = ("term_offsets", "I64", _offsets([len(term) for term in encoded]))
    term_bytes = ("term_bytes", "U8", np.frombuffer(b"".join(encoded), np.uint8))
    if kind == "keyword":
        values = [1 + numbers[terms_of_one[0]] if terms_of_one else 0 for terms_of_one in lists]
        return [term_offsets, ("values", "U32", np.array(values, "<u4")), term_bytes]
    values = [numbers[term] for terms_of_one in lists for term in terms_of_one]
    offsets = ("offsets", "I64", _offsets([len(terms_of_one) for terms_of_one in lists]))
    return [term_offsets, offsets, ("values", "U32", np.array(values, "<u4")), term_bytes]


def _offsets(sizes: list[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype("<i8")
