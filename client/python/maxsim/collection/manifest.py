"""The manifest, collection.json, which describes a generation and names its files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from maxsim.unique_json import parse_json

from .codes import CodesFormat
from .errors import CollectionError, quote
from .fields import Field, format_fields, parse_fields
from .limits import MAX_MANIFEST_BYTES, MAX_NAME_BYTES, PLANE_COUNTS, RESIDUAL_STORAGES, VALUE_BYTES

MANIFEST_FILE = "collection.json"
PREVIOUS_MANIFEST_FILE = "collection.previous.json"  # of the generation before the published one
SERVED_MANIFEST_FILE = "collection.served.json"  # of the generation that a server was told to serve

_NAME = re.compile(r"[A-Za-z0-9._-]{1,%d}" % MAX_NAME_BYTES)


@dataclass(frozen=True)
class FileEntry:
    """A file that belongs to a shard, as the manifest names it."""

    file: str
    num_bytes: int
    checksum: str


@dataclass(frozen=True)
class ShardEntry:
    """A shard file as the manifest names it, with its files of codes and of fields."""

    file: str
    num_documents: int
    num_tokens: int
    num_bytes: int  # size of the whole file
    checksum: str
    codes: list[FileEntry] = field(default_factory=list)
    fields: Optional[FileEntry] = None

    @property
    def files(self) -> list[str]:
        beside = self.codes if self.fields is None else [*self.codes, self.fields]
        return [self.file, *(file.file for file in beside)]

    def values(self) -> dict[str, Any]:
        """Returns the shard's entry in the manifest's JSON."""
        values = dict(vars(self))
        if self.codes:
            values["codes"] = [vars(code_file) for code_file in self.codes]
        else:
            del values["codes"]
        if self.fields is not None:
            values["fields"] = vars(self.fields)
        else:
            del values["fields"]
        return values


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest."""

    name: str
    generation: int
    dim: int
    storage: str
    rotation_seed: int  # not 0 only for i8, because only i8 vectors are rotated
    id_type: str  # "string" or "int64"
    has_payloads: bool
    created_by: str
    created_at: str  # RFC 3339, in UTC
    shards: list[ShardEntry] = field(default_factory=list)
    encoder: Optional[dict[str, Any]] = None
    codes: Optional[CodesFormat] = None
    fields: tuple[Field, ...] = ()
    num_centroids: int = 0  # not 0 only for residual codes

    @property
    def files(self) -> set[str]:
        return {file for shard in self.shards for file in shard.files}

    @property
    def num_documents(self) -> int:
        return sum(shard.num_documents for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        return sum(shard.num_tokens for shard in self.shards)

    def format(self) -> str:
        """Returns the text of collection.json. The keys are in the order in which maxsim-shard writes them."""
        values: dict[str, Any] = {
            "format": "maxsim-collection",
            "format_version": 4 if self.fields else 1 if self.codes is None else 3,
            "name": self.name,
            "generation": self.generation,
            "dim": self.dim,
            "storage": self.storage,
        }
        if self.storage == "i8":
            values["rotation"] = {"kind": "hadamard", "seed": self.rotation_seed}
        if self.num_centroids:
            values["num_centroids"] = self.num_centroids
        if self.codes is not None:
            values["codes"] = {
                "planes": self.codes.planes,
                "factors": self.codes.factors,
                "rotation": "hadamard",
                "rotation_seed": self.codes.rotation_seed,
            }
        values["id_type"] = self.id_type
        values["has_payloads"] = self.has_payloads
        if self.fields:
            values["fields"] = [{"name": one.name, "kind": one.kind, "path": one.path} for one in self.fields]
        values["num_documents"] = self.num_documents
        values["num_tokens"] = self.num_tokens
        if self.encoder is not None:
            values["encoder"] = self.encoder
        values["created_by"] = self.created_by
        values["created_at"] = self.created_at
        values["shards"] = [shard.values() for shard in self.shards]
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def check_name(name: str) -> str:
    """Returns the name of a collection. CollectionError if it is not valid."""
    if not _NAME.fullmatch(name):
        raise CollectionError(f"{quote(name)} must be 1 to {MAX_NAME_BYTES} characters of A-Z a-z 0-9 . _ -", field="name")
    if not name.strip("."):
        raise CollectionError(f"{quote(name)} is only dots", field="name")
    return name


class _RefusedError(CollectionError):
    """The manifest is not damaged, but the writer must not replace its collection."""


def read_manifest(folder: Path, name: str = MANIFEST_FILE) -> Optional[Manifest]:
    """Returns the manifest of this name in a folder, by default that of the published generation, or None if there is
    none.

    Checks only what the writer needs; maxsim-shard verify checks the rest.
    """
    path = folder / name
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        return None
    problem = f"{path}: a manifest that cannot be read; remove it to start over: "
    if len(text) > MAX_MANIFEST_BYTES:
        raise CollectionError(f"{problem}longer than the limit of {MAX_MANIFEST_BYTES} bytes")
    try:
        manifest = _manifest(parse_json(text))
    except _RefusedError as error:
        raise CollectionError(f"{path}: {error}") from None
    except CollectionError as error:
        raise CollectionError(f"{problem}{error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CollectionError(f"{problem}{type(error).__name__}: {error}") from None
    is_storage = manifest.storage in VALUE_BYTES or manifest.storage in RESIDUAL_STORAGES
    if not is_storage or manifest.id_type not in ("string", "int64") or manifest.generation < 1:
        raise CollectionError(
            f"{problem}storage {quote(manifest.storage)}, id_type {quote(manifest.id_type)}, generation "
            f"{manifest.generation}"
        )
    return manifest


def _manifest(values: Any) -> Manifest:
    """Builds a manifest from parsed JSON. Missing values, or values of another type, raise Python's own errors."""
    if values["format"] != "maxsim-collection":
        raise CollectionError("its format is not maxsim-collection")
    version = _typed(values["format_version"], int)
    if version not in (1, 2, 3, 4):
        raise _RefusedError(f"format_version: {version}; this version reads 1 to 4")
    if version == 2 or "partition" in values:
        raise _RefusedError("it is a partition of a collection; use a folder of its own for the whole collection")
    return Manifest(
        name=check_name(_typed(values["name"], str)),
        generation=_typed(values["generation"], int),
        dim=_typed(values["dim"], int),
        storage=_typed(values["storage"], str),
        rotation_seed=_typed(values.get("rotation", {}).get("seed", 0), int),
        id_type=_typed(values["id_type"], str),
        has_payloads=_typed(values["has_payloads"], bool),
        created_by=_typed(values["created_by"], str),
        created_at=_typed(values["created_at"], str),
        shards=[_shard_entry(shard) for shard in values["shards"]],
        encoder=values.get("encoder"),
        codes=_codes_format(values["codes"]) if values["format_version"] == 3 or "codes" in values else None,
        fields=_fields(values["fields"]) if values["format_version"] == 4 else (),
        num_centroids=_typed(values.get("num_centroids", 0), int),
    )


def _shard_entry(values: Any) -> ShardEntry:
    return ShardEntry(
        file=_typed(values["file"], str),
        num_documents=_typed(values["num_documents"], int),
        num_tokens=_typed(values["num_tokens"], int),
        num_bytes=_typed(values["num_bytes"], int),
        checksum=_typed(values["checksum"], str),
        codes=[_file_entry(code_file) for code_file in values.get("codes", [])],
        fields=_file_entry(values["fields"]) if "fields" in values else None,
    )


def _file_entry(values: Any) -> FileEntry:
    return FileEntry(
        file=_typed(values["file"], str),
        num_bytes=_typed(values["num_bytes"], int),
        checksum=_typed(values["checksum"], str),
    )


def _codes_format(values: Any) -> CodesFormat:
    codes = CodesFormat(
        planes=_typed(values["planes"], int),
        factors=_typed(values["factors"], bool),
        rotation_seed=_typed(values["rotation_seed"], int),
    )
    if codes.planes not in PLANE_COUNTS:
        raise ValueError(f"codes: planes: {codes.planes}")
    return codes


def _fields(values: Any) -> tuple[Field, ...]:
    fields = [Field(*(_typed(one[key], str) for key in ("name", "kind", "path"))) for one in values]
    return parse_fields(format_fields(tuple(fields)))


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.100} is not of type {kind.__name__}")
    return value
