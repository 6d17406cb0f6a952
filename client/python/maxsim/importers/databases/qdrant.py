"""The kind `qdrant`: the points of a collection with a multivector, from a server or from a folder of qdrant-client's
local mode.

Reads a server through qdrant-client, page by page. Reads a folder without qdrant-client, which would load all points
into memory, and unpickle them without checking what the pickles execute."""

# pyright: reportMissingImports=false
from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from maxsim.collection.errors import quote_id
from maxsim.importers.databases.qdrant_folder import count_points, points_file, read_points, read_vectors_config
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

# The environment variable of the Qdrant server for its API key.
_API_KEY_VARIABLE = "QDRANT_API_KEY"
# Points per page. A point of 1,024 tokens of 128 columns takes 1.5 MB of JSON.
_PAGE_POINTS = 64
_TIMEOUT_S = 300
# The smallest UUID. In the order of ids, all UUIDs follow the integers.
_FIRST_UUID = "00000000-0000-0000-0000-000000000000"
# qdrant-client divides a vector by its length, or by this value if the length is 0.
_EPSILON = 1.1920929e-7


@dataclasses.dataclass(frozen=True)
class _VectorConfig:
    name: str
    dim: int
    is_cosine: bool


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the collection that --table names, or the only one. `path` is the address of a server (http://, https://;
    its key comes from QDRANT_API_KEY) or a folder. --vectors-column names the multivector if there are several."""
    check_options("qdrant", options, ("table", "vectors_column", "payload_columns"))
    if "://" in path:
        return _ServerSource(path, options)
    if not os.path.isfile(os.path.join(path, "meta.json")):
        raise SourceError(f"{path}: has no meta.json: it is not a folder of qdrant-client's local mode, and not an address")
    return _FolderSource(path, options)


def _choose(kind: str, where: str, names: List[str], name: Optional[str], flag: str) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise SourceError(
            f"{where}: give {flag}, the name of a {kind}: {', '.join(map(repr, names)) or 'there is none'}"
        )
    return name


def _choose_vectors(where: str, vectors: Any, name: Optional[str]) -> _VectorConfig:
    """Returns the multivector in a collection's configuration. `vectors` is a single configuration, whose vectors
    have the name "", or maps names to configurations."""
    configs: Dict[str, Mapping[str, Any]] = vectors or {}
    if "size" in configs and "distance" in configs:
        configs = {"": configs}
    multivectors = [key for key, config in configs.items() if config.get("multivector_config")]
    if name in configs and name not in multivectors:
        raise SourceError(f"{where}: vector {name!r} has no multivector_config: it is one vector a point")
    chosen = _choose("multivector", where, multivectors, name, "--vectors-column")
    config = configs[chosen]
    dim = check_columns(f"{where}: vector {chosen!r}", int(config["size"]))
    return _VectorConfig(chosen, dim, str(config["distance"]).lower() == "cosine")


def _notes(where: str, config: _VectorConfig, distance: str, is_mixed: bool) -> List[str]:
    notes = [f"{where}: multivector {config.name!r}, {config.dim} columns, distance {distance}"]
    if config.is_cosine:
        notes.append("distance Cosine: token vectors have length 1, so that inner products are the cosines")
    elif distance.lower() != "dot":
        notes.append(f"distance {distance}: maxsimd scores by inner product, which ranks otherwise")
    if is_mixed:
        notes.append("ids: integers and UUIDs, all become strings")
    return notes


class _PointsSource:
    """Documents from points. A subclass streams the points."""

    kind = "qdrant"

    def __init__(
        self, where: str, config: _VectorConfig, distance: str, num_points: int, is_mixed: bool, options: ImportOptions
    ) -> None:
        self.dim = config.dim
        self.num_documents: Optional[int] = num_points
        self.notes: Sequence[str] = _notes(where, config, distance, is_mixed)
        self._where = where
        self._config = config
        self._is_mixed = is_mixed
        self._payload_columns = options.payload_columns

    def _note_left(self, payload: Optional[Mapping[str, Any]]) -> None:
        """Notes the fields of the first point's `payload` that are not imported. Fields of later points are unknown
        here."""
        if self._payload_columns != ALL_COLUMNS:
            left = [name for name in payload or () if name not in self._payload_columns]
            self.notes = [*self.notes, *note_left(left, "field")]

    def _document(self, id: Union[int, str], vector: Any, payload: Optional[Mapping[str, Any]]) -> SourceDocument:
        name = self._config.name
        rows = vector.get(name) if isinstance(vector, dict) else vector if name == "" else None
        vectors: np.ndarray = np.empty((0, self.dim), np.float32)
        if rows:
            try:
                vectors = np.array(rows, dtype=np.float32)
            except (TypeError, ValueError):
                vectors = np.empty(0, np.float32)
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise SourceError(
                    f"{self._where}: point {quote_id(id)}: multivector {name!r} is not [tokens, {self.dim}]"
                )
        if self._config.is_cosine:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.where(lengths != 0, lengths, np.float32(_EPSILON))
        fields = None
        if self._payload_columns == ALL_COLUMNS:
            fields = payload or None
        elif self._payload_columns:
            # Points of a collection may have different fields.
            fields = {key: payload[key] for key in self._payload_columns if payload and key in payload} or None
        return SourceDocument(str(id) if self._is_mixed else id, vectors, fields)


class _FolderSource(_PointsSource):
    def __init__(self, path: str, options: ImportOptions) -> None:
        collections = read_vectors_config(path)
        self._name = _choose("collection", path, list(collections), options.table, "--table")
        where = f"{path}: collection {self._name}"
        config = _choose_vectors(where, collections[self._name], options.vectors_column)
        self._file = points_file(path, self._name)
        counts = count_points(self._file)
        distance = _distance(collections[self._name], config.name)
        super().__init__(where, config, distance, counts.num_points, counts.is_mixed, options)
        self._outdated = counts.outdated
        first = next(iter(read_points(self._file, self._config.name, self._outdated)), None)
        self._note_left(None if first is None else first.payload)

    def __iter__(self) -> Iterator[SourceDocument]:
        for point in read_points(self._file, self._config.name, self._outdated):
            yield self._document(point.id, {self._config.name: point.vector}, point.payload)


def _distance(vectors: Mapping[str, Any], name: str) -> str:
    return str(vectors["distance"] if "distance" in vectors and name == "" else vectors[name]["distance"])


class _ServerSource(_PointsSource):
    def __init__(self, address: str, options: ImportOptions) -> None:
        from qdrant_client import QdrantClient

        try:
            self._client = QdrantClient(url=address, api_key=os.environ.get(_API_KEY_VARIABLE), timeout=_TIMEOUT_S)
            names = [description.name for description in self._client.get_collections().collections]
            self._name = _choose("collection", address, names, options.table, "--table")
            params = self._client.get_collection(self._name).config.params.model_dump(mode="json")
            num_points = self._client.count(self._name, exact=True).count
            first, _ = self._client.scroll(self._name, limit=1, with_payload=True)
            uuids, _ = self._client.scroll(self._name, limit=1, offset=_FIRST_UUID, with_payload=False)
        except SourceError:
            raise
        except Exception as error:  # the client raises the exceptions of httpx, gRPC and pydantic
            raise SourceError(f"{address}: {error}") from None
        where = f"{address}: collection {self._name}"
        config = _choose_vectors(where, params["vectors"], options.vectors_column)
        is_mixed = bool(first and uuids and isinstance(first[0].id, int))
        super().__init__(where, config, _distance(params["vectors"], config.name), num_points, is_mixed, options)
        self._note_left(first[0].payload if first else None)

    def __iter__(self) -> Iterator[SourceDocument]:
        offset: Any = None
        vectors: Any = [self._config.name] if self._config.name else True
        columns: Any = True if self._payload_columns == ALL_COLUMNS else list(self._payload_columns)
        while True:
            try:
                points, offset = self._client.scroll(
                    self._name, limit=_PAGE_POINTS, offset=offset, with_vectors=vectors, with_payload=columns or False
                )
            except Exception as error:
                raise SourceError(f"{self._where}: from point {quote_id(offset)} on: {error}") from None
            for point in points:
                yield self._document(point.id, point.vector, point.payload)
            if offset is None:
                return
