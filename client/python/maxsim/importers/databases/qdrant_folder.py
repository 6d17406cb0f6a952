"""Reads the folder of qdrant-client's local mode: meta.json, and one SQLite file of pickled points per collection."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import os
import uuid
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple, Union

from maxsim.collection.limits import MAX_DOCUMENT_TOKENS
from maxsim.importers.readers.describing import describe
from maxsim.importers.indexes.index_files import open_table
from maxsim.importers.readers.opening import open_regular
from maxsim.importers.readers.pickled_values import Global, Maker, Object
from maxsim.importers.source import SourceError
from maxsim.importers.readers.unpickling import Unpickler
from maxsim.unique_json import parse_json

PointId = Union[int, str]


@dataclasses.dataclass(frozen=True)
class Point:
    """vector: a list of token vectors, or None if the point has none."""

    id: PointId
    vector: Optional[List[List[float]]]
    payload: Optional[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class PointCounts:
    """What a first pass over the points found. outdated: rows of points that a later row has again; older versions of
    qdrant-client left them there. is_mixed: some ids are integers and others are UUIDs."""

    num_points: int
    outdated: FrozenSet[int]
    is_mixed: bool


def _time(kind: Callable[..., object]) -> Maker:
    def make(arguments: Tuple[object, ...]) -> object:
        if not all(isinstance(argument, _TIME_ARGUMENTS) for argument in arguments):
            raise SourceError("has a time that cannot be read")
        return kind(*arguments)

    return make


_TIME_ARGUMENTS = (bytes, int, str, datetime.timedelta, datetime.timezone)
_TIMES: Mapping[Tuple[str, str], Maker] = {
    ("datetime", kind.__name__): _time(kind)
    for kind in (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
}


def _is_model(name: Global) -> bool:
    return name.module.split(".")[0] == "qdrant_client"


def _unpickle(data: object, where: str) -> object:
    """Loads a pickle that may hold only numbers, strings, containers, times and objects of qdrant-client."""
    if not isinstance(data, bytes):
        raise SourceError(f"{where}: holds a value that is not a pickle")
    try:
        return Unpickler(data, 0, _TIMES, is_model=_is_model).load()
    except SourceError as error:
        raise SourceError(f"{where}: {error}") from None


def read_vectors_config(path: str) -> Dict[str, Any]:
    """Returns the configuration of the vectors of each collection."""
    meta = os.path.join(path, "meta.json")
    try:
        with open_regular(meta, "r", encoding="utf-8") as file:
            collections = parse_json(file.read())["collections"]
        return {str(name): config["vectors"] for name, config in collections.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(f"{meta}: does not describe collections: {error!r}") from None


def _canonical(id: object, where: str) -> PointId:
    if isinstance(id, int) and not isinstance(id, bool):
        return id
    try:
        if isinstance(id, str):
            return str(uuid.UUID(id))
    except ValueError:
        pass
    raise SourceError(f"{where}: id {describe(id, 80)} is neither an integer nor a UUID")


def _checked_rows(rows: object, where: str) -> List[List[float]]:
    """Returns `rows` if they are lists of numbers. NumPy would also unpack nested lists, and a pickle can make these
    infinitely large by sharing."""
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and {float, int}.issuperset(map(type, row)) for row in rows
    ):
        raise SourceError(f"{where}: its vector is {describe(rows)}; must be a list of lists of numbers")
    if len(rows) > MAX_DOCUMENT_TOKENS:
        raise SourceError(f"{where}: has {len(rows)} token vectors, the limit is {MAX_DOCUMENT_TOKENS}")
    return rows


def points_file(path: str, collection: str) -> str:
    """Returns the file of a collection's points. Its name comes from meta.json, and is refused if it leads out of the
    folder."""
    if collection in ("", ".", "..") or any(character in collection for character in "/\\\0"):
        raise SourceError(
            f"{path}: meta.json names the collection {describe(collection)}, which is not the name of a folder"
        )
    return os.path.join(path, "collection", collection, "storage.sqlite")


def count_points(path: str) -> PointCounts:
    """Reads the ids of all points."""
    latest: Dict[PointId, int] = {}
    outdated = set()
    with open_table(path, "points") as connection:
        for rowid, key in connection.execute("SELECT rowid, id FROM points ORDER BY rowid"):
            where = f"{path}: row {rowid}"
            try:
                data = base64.b64decode(key, validate=True)
            except (ValueError, TypeError):
                raise SourceError(f"{where}: key {describe(key, 80)} is not base64") from None
            id = _canonical(_unpickle(data, where), where)
            if id in latest:
                outdated.add(latest[id])
            latest[id] = rowid
    num_integers = sum(isinstance(id, int) for id in latest)
    return PointCounts(len(latest), frozenset(outdated), 0 < num_integers < len(latest))


def read_points(path: str, vector_name: str, outdated: FrozenSet[int]) -> Iterator[Point]:
    """Yields the points in the order in which they were written, without the rows in `outdated`. vector_name: the
    vector that is kept; "" if it has no name."""
    with open_table(path, "points") as connection:
        for rowid, data in connection.execute("SELECT rowid, point FROM points ORDER BY rowid"):
            if rowid in outdated:
                continue
            where = f"{path}: row {rowid}"
            point = _unpickle(data, where)
            fields = point.fields if isinstance(point, Object) else {}
            id, vector, payload = (fields.get(name) for name in ("id", "vector", "payload"))
            if "id" not in fields or not isinstance(payload, (dict, type(None))):
                raise SourceError(f"{where}: is not a point")
            rows = vector.get(vector_name) if isinstance(vector, dict) else vector if vector_name == "" else None
            vectors = None if rows is None else _checked_rows(rows, where)
            yield Point(_canonical(id, where), vectors, payload)
