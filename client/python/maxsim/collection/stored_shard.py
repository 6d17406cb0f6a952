"""Reads a complete shard from its file, to make the shard's files of codes and fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .batch import WORD_BYTES, Layout

_PAYLOAD_DOCUMENTS = 4096


class StoredShard:
    """The documents of a complete shard."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._layout = layout
        self._path = path
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(WORD_BYTES), "little")
            self._header = json.loads(file.read(size))
        self._begin = WORD_BYTES + size
        self.offsets = self._read("offsets", "<i8")

    def _read(self, name: str, dtype: Any, begin: int = 0, count: Optional[int] = None) -> NDArray[Any]:
        first, end = self._header[name]["data_offsets"]
        item = np.dtype(dtype).itemsize
        wanted = (end - first) // item - begin if count is None else count
        values = np.fromfile(self._path, dtype=dtype, count=wanted, offset=self._begin + first + begin * item)
        if len(values) != wanted:
            raise OSError(f"{self._path}: was cut off while the collection was written")
        return values

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """Returns the stored rows of the documents `first` .. `last` - 1."""
        columns = self._layout.columns
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        values = self._read("tokens", self._layout.value_type, begin * columns, (end - begin) * columns)
        return values.reshape(end - begin, columns)

    def scales(self, first: int, last: int) -> Optional[NDArray[np.float32]]:
        return self._read("scales", "<f4", first, last - first) if self._layout.storage == "i8" else None

    def payloads(self) -> Iterator[bytes]:
        """Yields the payload of each document, or b"" if it has none."""
        count = len(self.offsets) - 1
        for first in range(0, count, _PAYLOAD_DOCUMENTS):
            last = min(first + _PAYLOAD_DOCUMENTS, count)
            ends = self._read("payload_offsets", "<i8", first, last - first + 1)
            text = self._read("payload_bytes", np.uint8, int(ends[0]), int(ends[-1] - ends[0])).tobytes()
            ends -= ends[0]
            for index in range(last - first):
                yield text[int(ends[index]) : int(ends[index + 1])]
