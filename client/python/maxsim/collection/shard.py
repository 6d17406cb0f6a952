"""Writes one shard file, front to back and in constant memory.

Token vectors are written to the file as they come. Offsets, ids and payloads follow them in the file, so they are
first collected in unnamed files, and are copied to the end of the shard when it is complete. The header is the first
part of the file and of the checksum, but is known only at the end. So the checksum needs a second reading of the
file, from the page cache if it fits there.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .batch import WORD_BYTES, Batch, Layout
from .checksum import Checksum
from .folder import TEMPORARY_SUFFIX, create_file, shard_file_name, write_all
from .limits import DATA_BEGIN, SAFETENSORS_TYPES
from .manifest import ShardEntry

_SPILL_BYTES = 1 << 20
_READ_BYTES = 1 << 20


class Section:
    """A part of the shard file that follows the token vectors. Up to a MiB, its bytes are kept in memory, and beyond
    that in an unnamed file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buffer = bytearray()
        self._file: Any = None
        self.num_bytes = 0

    def append(self, data: Any) -> None:
        size = memoryview(data).nbytes
        self.num_bytes += size
        self._buffer += data
        if len(self._buffer) >= _SPILL_BYTES:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
            write_all(self._file.fileno(), self._buffer)
            self._buffer.clear()

    def append_zeros(self, count: int) -> None:
        """Appends `count` 8-byte zeros."""
        while count > 0:
            step = min(count, _SPILL_BYTES // WORD_BYTES)
            self.append(bytes(step * WORD_BYTES))
            count -= step

    def blocks(self) -> Iterator[bytes]:
        if self._file is not None:
            self._file.seek(0)
            while block := self._file.read(_READ_BYTES):
                yield block
        yield bytes(self._buffer)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Offsets(Section):
    """The running sums of sizes. The first is 0."""

    def __init__(self, folder: Path, num_zeros: int = 1) -> None:
        super().__init__(folder)
        self._end = 0
        self.append_zeros(num_zeros)

    def append_sizes(self, sizes: NDArray[np.int64]) -> None:
        ends = np.cumsum(sizes) + self._end
        self._end = int(ends[-1])
        self.append(ends.astype("<i8").tobytes())


class ShardFile:
    """A shard file while it is written.

    `complete` may run in another thread than earlier calls. After `complete`, only `discard` may be called.
    """

    def __init__(self, folder: Path, generation: int, index: int, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self.file = shard_file_name(generation, index)
        self.num_documents = 0
        self.num_tokens = 0
        self._fd = create_file(folder / (self.file + TEMPORARY_SUFFIX))
        os.lseek(self._fd, DATA_BEGIN, os.SEEK_SET)
        self._offsets = _Offsets(folder)
        self._ids = Section(folder) if layout.id_type == "int64" else _Offsets(folder)
        self._payload_offsets: Optional[_Offsets] = None
        self._scales = Section(folder)
        self._weights: Optional[Section] = None
        self._centroids: Optional[Section] = None
        if layout.codebook is not None:
            self._weights, self._centroids = Section(folder), Section(folder)
            self._weights.append(layout.codebook.bucket_weights.astype("<f4").tobytes())
            self._centroids.append(layout.codebook.centroids.astype("<f2").tobytes())
        self._id_bytes = Section(folder)
        self._payload_bytes = Section(folder)

    def begin_payloads(self) -> None:
        """Makes the shard one with payloads. The documents so far have none."""
        if self._payload_offsets is None:
            self._payload_offsets = _Offsets(self._folder, num_zeros=self.num_documents + 1)

    def append(self, batch: Batch) -> None:
        write_all(self._fd, batch.tokens)
        self._offsets.append_sizes(batch.lengths)
        if batch.int_ids is not None:
            self._ids.append(batch.int_ids.astype("<i8").tobytes())
        elif batch.id_sizes is not None and isinstance(self._ids, _Offsets):
            self._ids.append_sizes(batch.id_sizes)
            self._id_bytes.append(batch.id_bytes)
        if self._payload_offsets is not None:
            self._payload_offsets.append_sizes(batch.payload_sizes)
            self._payload_bytes.append(batch.payload_bytes)
        if batch.scales is not None:
            self._scales.append(batch.scales.astype("<f4").tobytes())
        self.num_documents += len(batch)
        self.num_tokens += len(batch.tokens)

    def _sections(self) -> list[tuple[str, str, list[int], Optional[Section]]]:
        """Returns name, type, shape and bytes of every tensor in the order of the file. For alignment, the tokens
        come first, followed by tensors of 8, 4, 2 and 1 bytes per element."""
        count, layout = self.num_documents, self._layout
        token_type = "U8" if layout.codebook is not None else SAFETENSORS_TYPES[layout.storage]
        sections: list[tuple[str, str, list[int], Optional[Section]]] = [
            ("tokens", token_type, [self.num_tokens, layout.columns], None),
            ("offsets", "I64", [count + 1], self._offsets),
        ]
        if layout.id_type == "int64":
            sections.append(("ids", "I64", [count], self._ids))
        else:
            sections.append(("id_offsets", "I64", [count + 1], self._ids))
        if self._payload_offsets is not None:
            sections.append(("payload_offsets", "I64", [count + 1], self._payload_offsets))
        if layout.storage == "i8":
            sections.append(("scales", "F32", [count], self._scales))
        if layout.codebook is not None and self._weights is not None and self._centroids is not None:
            sections.append(("bucket_weights", "F32", list(layout.codebook.bucket_weights.shape), self._weights))
            sections.append(("centroids", "F16", list(layout.codebook.centroids.shape), self._centroids))
        if layout.id_type == "string":
            sections.append(("id_bytes", "U8", [self._id_bytes.num_bytes], self._id_bytes))
        if self._payload_offsets is not None:
            sections.append(("payload_bytes", "U8", [self._payload_bytes.num_bytes], self._payload_bytes))
        return sections

    def _header(self) -> bytes:
        metadata = {"format": "maxsim-shard", "format_version": "1"}
        if self._layout.storage == "i8":
            metadata["rotation"] = "hadamard"
            metadata["rotation_seed"] = str(self._layout.rotation_seed)
        values: dict[str, Any] = {"__metadata__": metadata}
        begin = 0
        for name, dtype, shape, section in self._sections():
            end = begin + (self.num_tokens * self._layout.row_bytes if section is None else section.num_bytes)
            values[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
            begin = end
        text = json.dumps(values, separators=(",", ":")).encode()
        return (DATA_BEGIN - WORD_BYTES).to_bytes(WORD_BYTES, "little") + text.ljust(DATA_BEGIN - WORD_BYTES)

    def complete(self) -> ShardEntry:
        """Writes the parts before and after the token vectors, syncs the file to the disk, and renames it to its
        final name."""
        checksum = Checksum()
        header = self._header()
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, header)
        checksum.update(header)
        num_bytes = DATA_BEGIN + self.num_tokens * self._layout.row_bytes
        self._hash_tokens(checksum, num_bytes)
        for _, _, _, section in self._sections():
            if section is not None:
                for block in section.blocks():
                    write_all(self._fd, block)
                    checksum.update(block)
                num_bytes += section.num_bytes
        os.fsync(self._fd)
        self._close()
        os.rename(self._folder / (self.file + TEMPORARY_SUFFIX), self._folder / self.file)
        return ShardEntry(self.file, self.num_documents, self.num_tokens, num_bytes, checksum.format())

    def _hash_tokens(self, checksum: Checksum, end: int) -> None:
        """Adds the token vectors, which end at byte `end` of the file, to the checksum. Leaves the file's position at
        `end`."""
        block = memoryview(bytearray(_READ_BYTES))
        with io.FileIO(self._fd, "rb", closefd=False) as file:
            at = file.seek(DATA_BEGIN)
            while at < end:
                count = file.readinto(block[: end - at])
                if not count:
                    raise OSError(f"{self._folder / self.file}{TEMPORARY_SUFFIX}: was cut off while it was written")
                checksum.update(block[:count])
                at += count

    def discard(self) -> None:
        """Closes the file. The folder removes it."""
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        for section in (
            self._offsets,
            self._ids,
            self._payload_offsets,
            self._scales,
            self._weights,
            self._centroids,
            self._id_bytes,
            self._payload_bytes,
        ):
            if section is not None:
                section.close()
