"""The properties that a collection's next generation takes over from the published one, or must share with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from .errors import CollectionError, ShapeError, quote
from .fields import Field
from .limits import RESIDUAL_STORAGES
from .manifest import Manifest, check_name


class Predecessor:
    """The published generation of a folder, or none (`manifest` is None). If an option of the next generation is None,
    its value comes from the published generation.

    Methods raise CollectionError if the next generation would differ in a property on which clients of the published
    one rely. For a difference that may be intended, the error is a ShapeError, and `allow_other_shape` permits it."""

    def __init__(self, manifest: Optional[Manifest], allow_other_shape: bool) -> None:
        self.manifest = manifest
        self.next_generation = 1 if manifest is None else manifest.generation + 1
        self._allow_other_shape = allow_other_shape

    def choose_name(self, folder: Path, name: Optional[str]) -> str:
        """Returns the collection's name. If no generation is published, this is `name` or, if that is None, the
        folder's name."""
        if self.manifest is not None:
            if name is not None and name != self.manifest.name:
                raise CollectionError(
                    f"name: {folder} holds the collection {quote(self.manifest.name)}, not {quote(name)}; "
                    "choose another folder or that name"
                )
            return self.manifest.name
        if name is not None:
            return check_name(name)
        try:
            return check_name(os.path.basename(os.path.realpath(folder)))
        except CollectionError as error:
            raise CollectionError(f"{error.reason}; it is the name of the folder, because no name was given", field=error.field) from None

    def choose_fields(self, asked: Optional[tuple[Field, ...]]) -> tuple[Field, ...]:
        there = () if self.manifest is None else self.manifest.fields
        if asked is None:
            return there
        kinds = {field.name: field.kind for field in asked}
        for field in there:
            self._check(f"field {quote(field.name)}", kinds.get(field.name, "none"), field.kind)
        return asked

    def choose_storage(self, asked: Optional[str], data_type: str) -> str:
        """Returns the storage: `asked`, or else that of the published generation (unless it stores residual codes), or
        else the one for `data_type`, the type of the first document's vectors."""
        if asked is not None:
            return asked
        if self.manifest is not None and self.manifest.storage not in RESIDUAL_STORAGES:
            return self.manifest.storage
        return "bf16" if data_type == "bf16" else "f16"

    def choose_codes(self, asked: Optional[int], rotation_seed: int) -> tuple[int, int]:
        """Returns the number of planes (bits per value) of the codes, or 0 for no codes, and the seed of their
        rotation. If `asked` is None, both are those of the published generation."""
        if asked is None and self.manifest is not None and self.manifest.codes is not None:
            return self.manifest.codes.planes, self.manifest.codes.rotation_seed
        return asked or 0, rotation_seed

    def check_dim(self, dim: int) -> None:
        if self.manifest is not None:
            self._check("dimension", dim, self.manifest.dim)

    def check_id_type(self, id_type: str) -> None:
        if self.manifest is not None:
            self._check("type of ids", id_type, self.manifest.id_type)

    def check_payloads(self, has_payloads: bool) -> None:
        if self.manifest is not None and self.manifest.has_payloads and not has_payloads:
            self._check("payloads", "none", "some")

    def _check(self, what: str, here: Any, there: Any) -> None:
        if here == there or self._allow_other_shape or self.manifest is None:
            return
        raise ShapeError(
            f"{what}: {here}, and generation {self.manifest.generation} of {quote(self.manifest.name)} in the "
            f"folder has {there}, which its clients expect"
        )
