"""Small files of index folders: JSON, NumPy arrays, and maps from passage numbers to the ids of documents."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sqlite3
import urllib.parse
import zlib
from typing import Dict, Iterator, List, Mapping, Optional

import numpy as np

from maxsim.collection.limits import MAX_PAYLOAD_BYTES
from maxsim.importers.readers.describing import describe
from maxsim.importers.readers.opening import check_regular, open_regular
from maxsim.importers.source import DocumentId, SourceError
from maxsim.importers.readers.pickles import load_pickle
from maxsim.unique_json import parse_json

# The names of PyLate's map. It is pickled; older versions of PyLate write a table of pickled values.
_PICKLED_IDS = "plaid_ids_to_documents_ids.pkl"
_TABLED_IDS = "plaid_ids_to_documents_ids.sqlite"
# The largest unpacked size of a JSON file of an index, except for texts, which are read in blocks.
_MAX_JSON_BYTES = 4 * 2**30
# A file of texts is read in steps. Each step asks for at least this number of characters.
_TEXT_BLOCK = 65_536
# The longest text in JSON, in characters. JSON may write a character as six, such as \u0041.
_MAX_TEXT = 6 * MAX_PAYLOAD_BYTES


def read_json(path: str) -> object:
    """Returns the value of a JSON file. A file whose name ends with .gz is decompressed."""
    try:
        if path.endswith(".gz"):
            with open_regular(path) as file, gzip.open(file, "rb") as packed:
                data = packed.read(_MAX_JSON_BYTES + 1)
        else:
            with open_regular(path, "rb") as file:
                data = file.read(_MAX_JSON_BYTES + 1)
        if len(data) > _MAX_JSON_BYTES:
            raise SourceError(f"{path}: has more than {_MAX_JSON_BYTES} bytes of JSON")
        return parse_json(data)
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, RecursionError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: is not JSON: {error}") from None


def read_object(path: str) -> Dict[str, object]:
    """Returns the JSON object in the file."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise SourceError(f"{path}: must be a JSON object")
    return value


def read_lengths(path: str) -> List[int]:
    """Returns the number of tokens of each document, from a JSON array."""
    value = read_json(path)
    if not isinstance(value, list) or not all(type(length) is int and length >= 0 for length in value):
        raise SourceError(f"{path}: must be a JSON array of numbers of tokens")
    return value


def read_count(values: Mapping[str, object], key: str, path: str) -> int:
    """Returns the value of `key`, which must be a count."""
    value = values.get(key)
    if type(value) is not int or value < 0:
        raise SourceError(f"{path}: {key!r} is {describe(value, 40)}; must be a number")
    return value


def map_array(path: str) -> np.ndarray:
    """Maps the array of a .npy file into memory. Refuses an array of objects, which would be a pickle."""
    check_regular(path)
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, TypeError, EOFError, OverflowError, MemoryError) as error:
        raise SourceError(f"{path}: is not an array of NumPy: {error}") from None
    return array


@contextlib.contextmanager
def open_table(path: str, *names: str) -> Iterator[sqlite3.Connection]:
    """Opens an SQLite database for reading. Errors name the file. `names` are the tables that the caller reads. Refuses
    a table that is a view or has a computed column, because it could have infinitely many rows."""
    if not os.path.isfile(path):
        raise SourceError(f"{path}: no such file")
    try:
        connection = sqlite3.connect(f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
            for name in names:
                _check_table(connection, name, path)
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise SourceError(f"{path}: is not read by SQLite: {error}") from None


def _check_table(connection: sqlite3.Connection, name: str, path: str) -> None:
    kinds = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", (name,)).fetchall()
    # The last column of table_xinfo is 0 for a plain column.
    is_computed = any(row[-1] for row in connection.execute(f"PRAGMA table_xinfo({name})"))
    if is_computed or any(kind != "table" or "VIRTUAL" in str(sql)[:40].upper() for kind, sql in kinds):
        raise SourceError(f"{path}: {name} is not a plain table, and is not read")


def find_id_map(folder: str) -> Optional[str]:
    """Returns the file of PyLate's map from passage numbers to ids in `folder`, or None if there is none."""
    for name in (_PICKLED_IDS, _TABLED_IDS):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return None


def read_id_map(path: str) -> Dict[int, DocumentId]:
    """Returns PyLate's map from passage numbers to ids."""
    if path.endswith(".pkl"):
        with open_regular(path, "rb") as file:
            value = load_pickle(file.read(), path)
    else:
        with open_table(path, "unnamed") as table:
            rows = table.execute("SELECT key, value FROM unnamed").fetchall()
        if not all(isinstance(packed, bytes) for _, packed in rows):
            raise SourceError(f"{path}: holds a value that is not a pickle")
        value = {str(key): load_pickle(packed, path) for key, packed in rows}
    if not isinstance(value, dict):
        raise SourceError(f"{path}: must map numbers of passages to ids")
    ids: Dict[int, DocumentId] = {}
    for number, document_id in value.items():
        if not str(number).isdecimal() or not isinstance(document_id, (str, int, np.integer)):
            raise SourceError(
                f"{path}: must map numbers of passages to ids, "
                f"maps {describe(number, 40)} to {describe(document_id, 40)}"
            )
        ids[int(str(number))] = document_id if isinstance(document_id, str) else int(document_id)
    return ids


def read_texts(path: str) -> Iterator[Mapping[str, object]]:
    """Yields the texts of passages as payloads.

    A .tsv file has the form that colbert-ai reads: a line has a passage's number, its text and optionally its title,
    which become the fields `content` and `title`. A .json file is an array of texts."""
    if path.endswith(".json"):
        return ({"content": text} for text in _read_json_texts(path))
    return _read_lines(path)


def _read_lines(path: str) -> Iterator[Mapping[str, object]]:
    with open_regular(path, "r", encoding="utf-8", newline="\n") as file:
        try:
            for number, line in enumerate(file):
                fields = line.rstrip("\r\n").split("\t")
                if len(fields) < 2 or fields[0] != str(number):
                    raise SourceError(f"{path}: line {number + 1} must begin with the number {number} and a tab")
                payload = {"content": fields[1]}
                if len(fields) > 2:
                    payload["title"] = fields[2]
                yield payload
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: is not UTF-8 at byte {error.start} of a block") from None


def _read_json_texts(path: str) -> Iterator[str]:
    """Yields the strings of a JSON array. Holds only some of them in memory."""
    decoder = json.JSONDecoder()
    with open_regular(path, "r", encoding="utf-8") as file:
        text = file.read(_TEXT_BLOCK).lstrip()
        if not text.startswith("["):
            raise SourceError(f"{path}: must be a JSON array of texts")
        text = text[1:]
        is_at_end = False
        while True:
            text = text.lstrip(", \t\r\n")
            try:
                if text.startswith("]"):
                    return
                value, end = decoder.raw_decode(text)
            except (ValueError, RecursionError):
                is_text = text[:1] in ("", '"')
                if is_at_end or not is_text or len(text) > _MAX_TEXT:
                    raise SourceError(
                        f"{path}: is cut off, or is not a JSON array of texts of up to {MAX_PAYLOAD_BYTES} bytes"
                    ) from None
                more = file.read(max(_TEXT_BLOCK, len(text)))
                is_at_end = not more
                text += more
                continue
            if not isinstance(value, str):
                raise SourceError(f"{path}: must be a JSON array of texts, but has {type(value).__name__}")
            yield value
            text = text[end:]
