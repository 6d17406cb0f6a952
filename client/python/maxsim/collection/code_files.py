"""Writes the files of codes for complete shards (docs/reference/formats.md)."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .batch import WORD_BYTES, Layout
from .checksum import Checksum
from .codes import (
    MAX_NORM_SPREAD,
    SAMPLED_DOCUMENTS,
    Codes,
    CodesEncoder,
    CodesFormat,
    num_words,
    squared_norm_deviations,
)
from .folder import TEMPORARY_SUFFIX, code_file_name, create_file, write_all
from .limits import DATA_BEGIN
from .manifest import FileEntry, ShardEntry
from .shard import Section
from .stored_shard import StoredShard
from .workers import Workers

PLANE_NAMES = ("plane0", "plane1", "planes23")
_BATCH_BYTES = 16 << 20  # bytes of stored rows that a thread encodes in one step


def need_factors(folder: Path, layout: Layout, entries: list[ShardEntry]) -> bool:
    """Returns whether codes need one factor per token, because the norms of token vectors differ by more than
    MAX_NORM_SPREAD. Measures the same sample of documents as maxsim-shard."""
    num_documents = sum(entry.num_documents for entry in entries)
    num_sampled = min(num_documents, SAMPLED_DOCUMENTS)
    deviations, num_tokens, sampled, first = 0.0, 0, 0, 0

    def next_sampled() -> int:
        return num_documents // num_sampled * sampled if sampled < num_sampled else num_documents

    for entry in entries:
        shard = StoredShard(folder / entry.file, layout) if next_sampled() < first + entry.num_documents else None
        while shard is not None and next_sampled() < first + entry.num_documents:
            document = next_sampled() - first
            rows = shard.rows(document, document + 1)
            deviations += squared_norm_deviations(rows, layout.storage)
            num_tokens += len(rows)
            sampled += 1
        first += entry.num_documents
    return num_tokens > 0 and math.sqrt(deviations / num_tokens) > MAX_NORM_SPREAD


class _CodeFile:
    """A file of codes while it is written: the header, the rows of one plane (one or two bits of each value), and then
    the values per token or document."""

    def __init__(
        self, folder: Path, name: str, index: int, layout: Layout, codes: CodesFormat, entry: ShardEntry
    ) -> None:
        self._folder = folder
        self.name = name
        self._index = index
        self._checksum = Checksum()
        self._factors = Section(folder) if index == 0 and codes.factors else None
        self._scales = Section(folder) if index == 0 else None
        self._bounds = Section(folder)
        self._num_bytes = 0
        self._fd = create_file(folder / (name + TEMPORARY_SUFFIX))
        self._write(self._header(layout, codes, entry))

    def _header(self, layout: Layout, codes: CodesFormat, entry: ShardEntry) -> bytes:
        row_bytes = (4, 4, 8)[self._index] * num_words(layout.dim)
        tensors: list[tuple[str, str, list[int], int]] = [
            (PLANE_NAMES[self._index], "U8", [entry.num_tokens, row_bytes], entry.num_tokens * row_bytes)
        ]
        if self._factors is not None:
            tensors.append(("factors", "U8", [entry.num_tokens], entry.num_tokens))
        if self._scales is not None:
            tensors.append(("scales", "F32", [entry.num_documents], 4 * entry.num_documents))
        tensors.append(("bounds", "F16", [entry.num_documents, 4], 8 * entry.num_documents))
        values: dict[str, Any] = {
            "__metadata__": {
                "format": "maxsim-codes",
                "format_version": "1",
                "originals": layout.storage,
                "dim": str(layout.dim),
                "rotation": "hadamard",
                "rotation_seed": str(codes.rotation_seed),
            }
        }
        begin = 0
        for name, dtype, shape, size in tensors:
            values[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + size]}
            begin += size
        text = json.dumps(values, separators=(",", ":")).encode()
        return (DATA_BEGIN - WORD_BYTES).to_bytes(WORD_BYTES, "little") + text.ljust(DATA_BEGIN - WORD_BYTES)

    def _write(self, data: Any) -> None:
        write_all(self._fd, data)
        self._checksum.update(data)
        self._num_bytes += memoryview(data).nbytes

    def append(self, codes: Codes) -> None:
        self._write(codes.planes[self._index].tobytes())
        if self._factors is not None and codes.factors is not None:
            self._factors.append(codes.factors.tobytes())
        if self._scales is not None:
            self._scales.append(codes.scales.astype("<f4").tobytes())
        self._bounds.append(codes.bounds[self._index].astype("<f2").tobytes())

    def complete(self) -> FileEntry:
        for section in (self._factors, self._scales, self._bounds):
            if section is not None:
                for block in section.blocks():
                    self._write(block)
        os.fsync(self._fd)
        self.close()
        os.rename(self._folder / (self.name + TEMPORARY_SUFFIX), self._folder / self.name)
        return FileEntry(self.name, self._num_bytes, self._checksum.format())

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        for section in (self._factors, self._scales, self._bounds):
            if section is not None:
                section.close()


def _batches(offsets: NDArray[np.int64], row_bytes: int) -> Iterator[tuple[int, int]]:
    """Yields ranges (first, end) of documents, each with at least one document and some MiB of stored rows."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + max(1, _BATCH_BYTES // row_bytes), side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def encode_shard(
    folder: Path, generation: int, index: int, layout: Layout, codes: CodesFormat, entry: ShardEntry, workers: Workers
) -> list[FileEntry]:
    """Writes the codes of a complete shard. Returns their files, which are complete and have their final names."""
    shard = StoredShard(folder / entry.file, layout)
    encoder = CodesEncoder(layout.dim, layout.storage, codes)

    def encode(done: list[Optional[Codes]], number: int, first: int, last: int) -> None:
        lengths = np.diff(shard.offsets[first : last + 1])
        done[number] = encoder.encode(shard.rows(first, last), lengths, shard.scales(first, last))

    with contextlib.ExitStack() as stack:
        files = []
        for number in range(codes.num_files):
            name = code_file_name(generation, index, PLANE_NAMES[number])
            files.append(_CodeFile(folder, name, number, layout, codes, entry))
            stack.callback(files[-1].close)
        batches = list(_batches(shard.offsets, layout.row_bytes))
        for begin in range(0, len(batches), workers.num_threads):
            part = batches[begin : begin + workers.num_threads]
            done: list[Optional[Codes]] = [None] * len(part)
            workers.run([partial(encode, done, number, first, last) for number, (first, last) in enumerate(part)])
            for one in done:
                assert one is not None
                for file in files:
                    file.append(one)
        return [file.complete() for file in files]


def encode_shards(
    folder: Path,
    generation: int,
    layout: Layout,
    entries: list[ShardEntry],
    planes: int,
    rotation_seed: int,
    workers: Workers,
) -> tuple[CodesFormat, list[ShardEntry]]:
    """Writes the codes of all shards. Returns their format, and the shards' entries with the files of codes."""
    codes = CodesFormat(planes, need_factors(folder, layout, entries), rotation_seed)
    return codes, [
        replace(entry, codes=encode_shard(folder, generation, index, layout, codes, entry, workers))
        for index, entry in enumerate(entries)
    ]
