"""Reads the folder of qdrant-client's local mode: meta.json, and a SQLite file of pickled points a collection."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import os
import pickle
import sqlite3
import urllib.parse
import uuid
from typing import Any, Dict, FrozenSet, Iterator, Mapping, Optional, Union

from maxsim.collection.errors import quote_id
from maxsim.importers.source import SourceError

PointId = Union[int, str]


@dataclasses.dataclass(frozen=True)
class Point:
    """vector: a list of token vectors, or a dictionary from names to vectors."""

    id: PointId
    vector: Any
    payload: Optional[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class PointCounts:
    """outdated: rows whose point a later row holds again, as older versions of qdrant-client left them. is_mixed: some
    ids are integers and others UUIDs."""

    num_points: int
    outdated: FrozenSet[int]
    is_mixed: bool


class _Model:
    """Stands for every class of qdrant-client in a pickle: it keeps the fields and runs nothing."""

    fields: Dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        fields = state.get("__dict__", state) if isinstance(state, dict) else None
        self.fields = fields if isinstance(fields, dict) else {}


class _PointUnpickler(pickle.Unpickler):
    """Knows numbers, strings, containers and times; a class of qdrant-client becomes a _Model; everything else is
    refused before it is looked up."""

    _TIMES = frozenset({"datetime", "date", "time", "timedelta", "timezone"})

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "qdrant_client":
            return _Model
        if module == "datetime" and name in self._TIMES:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which a point does not")


def _unpickle(data: bytes, where: str) -> Any:
    try:
        return _PointUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise SourceError(f"{where}: is refused: {error or type(error).__name__}") from None


def read_vectors_config(path: str) -> Dict[str, Any]:
    """The configuration of the vectors of each collection."""
    meta = os.path.join(path, "meta.json")
    try:
        with open(meta, encoding="utf-8") as file:
            collections = json.load(file)["collections"]
        return {str(name): config["vectors"] for name, config in collections.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{meta}: does not describe collections: {error!r}") from None


@contextlib.contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    if not os.path.isfile(path):
        raise SourceError(f"{path}: no such file")
    address = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise SourceError(f"{path}: {error}") from None


def _canonical(id: Any, where: str) -> PointId:
    if isinstance(id, int) and not isinstance(id, bool):
        return id
    try:
        return str(uuid.UUID(str(id)))
    except ValueError:
        raise SourceError(f"{where}: id {quote_id(id)} is neither an integer nor a UUID") from None


def count_points(path: str) -> PointCounts:
    """Reads the ids of all points."""
    latest: Dict[PointId, int] = {}
    outdated = set()
    with _connected(path) as connection:
        for rowid, key in connection.execute("SELECT rowid, id FROM points ORDER BY rowid"):
            where = f"{path}: row {rowid}"
            try:
                data = base64.b64decode(key, validate=True)
            except (ValueError, TypeError):
                raise SourceError(f"{where}: key {key!r:.80} is not base64") from None
            id = _canonical(_unpickle(data, where), where)
            if id in latest:
                outdated.add(latest[id])
            latest[id] = rowid
    num_integers = sum(isinstance(id, int) for id in latest)
    return PointCounts(len(latest), frozenset(outdated), 0 < num_integers < len(latest))


def read_points(path: str, outdated: FrozenSet[int]) -> Iterator[Point]:
    """The points in the order in which they were written, without the rows `outdated`."""
    with _connected(path) as connection:
        for rowid, data in connection.execute("SELECT rowid, point FROM points ORDER BY rowid"):
            if rowid in outdated:
                continue
            where = f"{path}: row {rowid}"
            point = _unpickle(data, where)
            if not isinstance(point, _Model) or "id" not in point.fields:
                raise SourceError(f"{where}: is not a point")
            payload = point.fields.get("payload")
            yield Point(_canonical(point.fields["id"], where), point.fields.get("vector"), payload)
