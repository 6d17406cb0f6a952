"""Summary describes what a writer has published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .loss import QuantizationLoss
from .manifest import Manifest


@dataclass(frozen=True)
class Summary:
    """Describes a published generation."""

    folder: Path
    name: str
    generation: int
    dim: int
    storage: str
    id_type: str
    has_payloads: bool
    num_documents: int
    num_tokens: int
    num_bytes: int  # the size of all shard files together
    num_shards: int
    loss: QuantizationLoss = QuantizationLoss()  # the lossy tokens, for "i8"

    @classmethod
    def of(cls, folder: Path, manifest: Manifest, loss: QuantizationLoss) -> Summary:
        return cls(
            folder=folder,
            name=manifest.name,
            generation=manifest.generation,
            dim=manifest.dim,
            storage=manifest.storage,
            id_type=manifest.id_type,
            has_payloads=manifest.has_payloads,
            num_documents=manifest.num_documents,
            num_tokens=manifest.num_tokens,
            num_bytes=sum(shard.num_bytes for shard in manifest.shards),
            num_shards=len(manifest.shards),
            loss=loss,
        )
