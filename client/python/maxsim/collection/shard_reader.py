"""Reads the documents of a shard that this writer has completed, so that it can write them to another shard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import WORD_BYTES, Batch, Layout
from .limits import DATA_BEGIN
from .manifest import ShardEntry

_DOCUMENTS = 16384
_TOKEN_BYTES = 4 << 20


def read_batches(path: os.PathLike[str], layout: Layout, entry: ShardEntry) -> Iterator[Batch]:
    """Yields the documents of a shard without payloads, some MiB at a time."""
    count = entry.num_documents
    with open(path, "rb", buffering=0) as file:

        def read(begin: int, size: int, dtype: Any) -> NDArray[Any]:
            file.seek(begin)
            values = np.fromfile(file, dtype=dtype, count=size)
            if len(values) != size:
                raise OSError(f"{path}: was cut off while the collection was written")
            return values

        offsets_begin = DATA_BEGIN + entry.num_tokens * layout.row_bytes
        ids_begin = offsets_begin + (count + 1) * WORD_BYTES
        scales_begin = ids_begin + (count + (layout.id_type == "string")) * WORD_BYTES
        id_bytes_begin = scales_begin + (4 * count if layout.storage == "i8" else 0)
        if layout.codebook is not None:
            id_bytes_begin += layout.codebook.bucket_weights.nbytes + layout.codebook.centroids.nbytes
        for block in range(0, count, _DOCUMENTS):
            offsets = read(offsets_begin + block * WORD_BYTES, min(_DOCUMENTS, count - block) + 1, "<i8")
            first = 0
            while first < len(offsets) - 1:
                rows = max(1, _TOKEN_BYTES // layout.row_bytes)
                last = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
                last = max(last, first + 1)
                num_documents = last - first
                document = block + first
                num_rows = int(offsets[last] - offsets[first])
                tokens = read(
                    DATA_BEGIN + int(offsets[first]) * layout.row_bytes, num_rows * layout.columns, layout.value_type
                )
                int_ids, id_sizes, id_bytes = None, None, b""
                if layout.id_type == "int64":
                    int_ids = read(ids_begin + document * WORD_BYTES, num_documents, "<i8")
                else:
                    ends = read(ids_begin + document * WORD_BYTES, num_documents + 1, "<i8")
                    id_sizes = np.diff(ends)
                    id_bytes = read(id_bytes_begin + int(ends[0]), int(ends[-1] - ends[0]), np.uint8).tobytes()
                scales = read(scales_begin + 4 * document, num_documents, "<f4") if layout.storage == "i8" else None
                yield Batch(
                    tokens=tokens.reshape(num_rows, layout.columns),
                    lengths=np.diff(offsets[first : last + 1]),
                    int_ids=int_ids,
                    id_sizes=id_sizes,
                    id_bytes=id_bytes,
                    payload_sizes=np.zeros(num_documents, dtype=np.int64),
                    payload_bytes=b"",
                    scales=scales,
                )
                first = last
