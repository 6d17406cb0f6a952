"""Reads what run.py needs to know of a collection's folder before actors load it. docs/reference/formats.md describes
the whole format."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import TypeAlias

import xxhash

Id: TypeAlias = "str | int"

NUM_SLOTS = 4096  # docs/internals/cluster.md


class InputError(Exception):
    """An input is wrong. The text names the input, its value, and what would be right."""


@dataclasses.dataclass(frozen=True)
class Collection:
    """A folder with a manifest. `first_slot` .. `end_slot` - 1 are the hash slots whose documents it has."""

    folder: pathlib.Path
    name: str
    dim: int
    storage: str  # f16, bf16, f32 or i8
    id_type: str  # string or int64
    num_documents: int
    num_bytes: int  # of its shards
    shards: tuple[str, ...]  # names of files in the folder
    first_slot: int = 0
    end_slot: int = NUM_SLOTS

    @property
    def is_whole(self) -> bool:
        return (self.first_slot, self.end_slot) == (0, NUM_SLOTS)

    def holds(self, id: Id) -> bool:
        """Returns true if the id's hash slot belongs to this partition. Does not check that the document exists."""
        return self.first_slot <= slot_of(id) < self.end_slot


def slot_of(id: Id) -> int:
    """Returns the hash slot of an id, 0 .. NUM_SLOTS - 1."""
    data = id.encode() if isinstance(id, str) else id.to_bytes(8, "little", signed=True)
    return int(xxhash.xxh3_64_intdigest(data) % NUM_SLOTS)


def read_collection(folder: pathlib.Path) -> Collection:
    """Reads a manifest. Raises InputError if there is no usable one."""
    path = folder / "collection.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        slots = manifest.get("partition", {"first_slot": 0, "end_slot": NUM_SLOTS})
        return Collection(
            folder=folder.resolve(),
            name=manifest["name"],
            dim=manifest["dim"],
            storage=manifest["storage"],
            id_type=manifest["id_type"],
            num_documents=manifest["num_documents"],
            num_bytes=sum(shard["num_bytes"] for shard in manifest["shards"]),
            shards=tuple(shard["file"] for shard in manifest["shards"]),
            first_slot=slots["first_slot"],
            end_slot=slots["end_slot"],
        )
    except OSError as error:
        raise InputError(f"--collection {folder}: cannot read {path.name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InputError(f"--collection {folder}: {path.name} is no manifest: {problem}") from None


def read_partitions(folders: Sequence[pathlib.Path]) -> list[Collection]:
    """Reads one whole collection, or all partitions of one, in the order of their slots. Raises InputError if a
    partition is missing or given twice, or if the partitions belong to different collections."""
    partitions = sorted(map(read_collection, folders), key=lambda partition: partition.first_slot)
    first = partitions[0]
    for other in partitions[1:]:
        for what in ("name", "dim", "storage", "id_type"):
            mine, theirs = getattr(first, what), getattr(other, what)
            if mine != theirs:
                raise InputError(f"--collection {other.folder}: {what} is {theirs}, and that of {first.folder} {mine}")
    expected = 0
    for partition in [*partitions, None]:
        begin = partition.first_slot if partition else NUM_SLOTS
        if begin != expected:
            given = ", ".join(f"{one.folder} has slots {one.first_slot} to {one.end_slot - 1}" for one in partitions)
            raise InputError(f"--collection: partitions have each of the {NUM_SLOTS} slots once, and here {given}")
        expected = partition.end_slot if partition else NUM_SLOTS
    return partitions
