"""Ids and payloads of documents whose vectors are an array. They come from a file with one line per document, or from
arrays beside the vectors. Without either, ids are numbers."""

from __future__ import annotations

import codecs
import json
from typing import Any, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple

import numpy as np

from maxsim.importers.readers.opening import open_regular
from maxsim.importers.readers.rows import RowArray
from maxsim.importers.source import (
    ALL_COLUMNS,
    ID_NAMES,
    DocumentId,
    ImportOptions,
    OptionError,
    SourceError,
    checked_line,
    first_named,
    note_left,
)
from maxsim.unique_json import parse_json

Payload = Optional[Mapping[str, object]]
Label = Tuple[DocumentId, Payload]

_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
# Rows of a column that are read in one step.
_ROWS = 4096


class Labels(Protocol):
    """The id and the payload of each document, in order. May be iterated more than once."""

    def __iter__(self) -> Iterator[Label]: ...


def column_values(column: RowArray) -> Iterator[Any]:
    """Yields the rows of an array as Python values: numbers, strings (bytes are decoded as UTF-8), lists."""
    row = 0
    for block in column.blocks(_ROWS):
        for value in block.tolist():
            if isinstance(value, bytes):
                try:
                    value = value.decode()
                except UnicodeDecodeError:
                    raise SourceError(f"{column.where}: row {row} is not UTF-8: {value[:40]!r}") from None
            row += 1
            yield value


class NumberLabels:
    """Numbers the documents from 0 to num_documents - 1, without payloads."""

    def __init__(self, num_documents: int) -> None:
        self._num_documents = num_documents

    def __iter__(self) -> Iterator[Label]:
        for number in range(self._num_documents):
            yield number, None


class ColumnLabels:
    """Ids and payloads from arrays with one row per document. Without an array of ids, documents are numbered."""

    def __init__(self, num_documents: int, ids: Optional[RowArray], payloads: Mapping[str, RowArray]) -> None:
        self._num_documents = num_documents
        self._ids = ids
        self._payloads = payloads
        for column in (*payloads.values(), *(() if ids is None else (ids,))):
            if len(column.shape) == 0 or column.shape[0] != num_documents:
                raise SourceError(
                    f"{column.where}: has shape {list(column.shape)}, but there are {num_documents} documents"
                )
        if ids is not None and (len(ids.shape) != 1 or ids.dtype.kind not in "iuSUOT"):
            raise SourceError(
                f"{ids.where}: ids must be integers or strings [N], but they are {ids.dtype} {list(ids.shape)}"
            )

    def __iter__(self) -> Iterator[Label]:
        ids = range(self._num_documents) if self._ids is None else column_values(self._ids)
        if not self._payloads:
            for id in ids:
                yield id, None
            return
        rows = zip(*(column_values(column) for column in self._payloads.values()))
        for id, row in zip(ids, rows):
            yield id, dict(zip(self._payloads, row))


class FileLabels:
    """Ids from a file with one line per document, in the order of the vectors. `maxsim-shard build --ids` takes such
    files too.

    The file is JSON Lines if its name ends in .jsonl, .ndjson or .json, or its first line begins with {. Each line is
    then an object with "id", and its other fields are the payload. In any other file, each line is an id. Empty lines
    are allowed only at the end. A byte order mark at the beginning is ignored."""

    def __init__(self, path: str, num_documents: int) -> None:
        self._path = path
        self._num_documents = num_documents
        with open_regular(path, "rb") as file:
            first = file.readline(1 << 16).removeprefix(codecs.BOM_UTF8)
        self._is_json = path.endswith(_JSON_ENDINGS) or first.lstrip(b" \t").startswith(b"{")

    def __iter__(self) -> Iterator[Label]:
        count = 0
        empty = 0  # number of the first empty line, from 1 on
        with open_regular(self._path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if not line.strip(b" \t\r\n"):
                    empty = empty or number
                    continue
                if empty:
                    raise SourceError(f"{self._path}:{empty}: an empty line between documents")
                count += 1
                if count > self._num_documents:
                    break
                yield self._label(line, f"{self._path}:{number}")
        if count != self._num_documents:
            more = "more" if count > self._num_documents else f"{count}"
            raise SourceError(f"{self._path}: has {more} lines, but there are {self._num_documents} documents")

    def _label(self, line: bytes, where: str) -> Label:
        try:
            text = line.decode().removesuffix("\n")
            if not self._is_json:
                return checked_line(text.removesuffix("\r"), where), None
            fields: Dict[str, object] = parse_json(text)
        except SourceError:
            raise
        except RecursionError:
            raise SourceError(f"{where}: is JSON that is nested too deeply") from None
        except UnicodeDecodeError as error:
            raise SourceError(f"{where}: not UTF-8: {error}") from None
        except json.JSONDecodeError as error:
            raise SourceError(f"{where}: not JSON: {error}") from None
        except ValueError as error:
            raise SourceError(f"{where}: {error}") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("id"), (str, int)):
            raise SourceError(f'{where}: must be an object with "id", a string or an integer')
        id = fields.pop("id")
        assert isinstance(id, (str, int))
        if id == "":
            raise SourceError(f"{where}: an empty id")
        return id, fields or None


def _count_lines(path: str) -> int:
    """Returns the number of lines up to the last one that is not empty."""
    with open_regular(path, "rb") as file:
        lines = (number for number, line in enumerate(file, 1) if line.removeprefix(codecs.BOM_UTF8).strip())
        return max(lines, default=0)


def open_file_labels(options: ImportOptions, num_documents: int) -> Optional[FileLabels]:
    """Returns the labels (ids and payloads) in the file that --ids names, or None without --ids. Raises an error for a
    wrong number of lines before any document is read."""
    if options.ids is None:
        return None
    if options.id_column is not None:
        raise OptionError("--ids, --id-column: give only one of them")
    count = _count_lines(options.ids)
    if count != num_documents:
        raise SourceError(f"{options.ids}: has {count} lines, but there are {num_documents} documents")
    return FileLabels(options.ids, num_documents)


def with_fields(payload: Payload, fields: Payload) -> Payload:
    """Returns a source's `payload` with the fields from a line of --ids, which replace fields of the same name."""
    return {**(payload or {}), **fields} if fields else payload


def find_member(
    members: Mapping[str, RowArray], name: Optional[str], guesses: Tuple[str, ...], where: str
) -> Optional[str]:
    """Returns the member `name`, which must exist. Without a name, returns the first member of `guesses`, ignoring
    case, or None."""
    if name is not None:
        if name not in members:
            raise SourceError(f"{where}: has no {name!r}; it has {', '.join(list(members)[:20]) or 'nothing'}")
        return name
    return first_named(guesses, members)


def count_ids(members: Mapping[str, RowArray], options: ImportOptions, where: str) -> Optional[int]:
    """Returns the number of ids that `options` and the members of a source give, or None if they give none."""
    if options.ids is not None:
        return _count_lines(options.ids)
    name = find_member(members, options.id_column, ID_NAMES, where)
    return members[name].shape[0] if name is not None and members[name].shape else None


def open_labels(
    members: Mapping[str, RowArray], taken: List[str], num_documents: int, options: ImportOptions, where: str
) -> Tuple[Labels, List[str]]:
    """Returns the labels (ids and payloads) that `options` and the members of a source give, and a dry run's
    description of them. `taken` are the members that hold vectors and other data: `--payload-columns *` leaves them
    out."""
    if options.ids is not None:
        if options.id_column is not None or options.payload_columns:
            raise OptionError("--ids: the file has ids and payloads; leave out --id-column and --payload-columns")
        return FileLabels(options.ids, num_documents), [f"ids: {options.ids}"]
    id_name = find_member(members, options.id_column, ID_NAMES, where)
    names: Tuple[str, ...] = options.payload_columns
    fitting = tuple(
        name
        for name, member in members.items()
        if name not in taken and name != id_name and member.shape[:1] == (num_documents,)
    )
    if names == ALL_COLUMNS:
        names = fitting
    payloads = {name: members[find_member(members, name, (), where) or name] for name in names}
    ids = None if id_name is None else members[id_name]
    note = "ids: the documents are numbered from 0" if ids is None else f"ids: {ids.where}"
    left = [name for name in fitting if name not in names]
    return ColumnLabels(num_documents, ids, payloads), [note, *note_left(left)]


def zip_documents(labels: Labels, vectors: Iterator[np.ndarray]) -> Iterator[Tuple[Label, np.ndarray]]:
    """Yields labels (ids and payloads) and vectors together. SourceError: there are fewer or more labels than
    vectors."""
    iterator = iter(labels)
    for array in vectors:
        label = next(iterator, None)
        if label is None:
            raise SourceError("there are fewer ids than documents")
        yield label, array
    next(iterator, None)
