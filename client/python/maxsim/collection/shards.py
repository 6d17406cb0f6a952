"""Stores the documents of a generation in shards, which it divides as maxsim-shard build does."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Optional

import numpy as np

from .batch import Batch, Layout
from .errors import CollectionError
from .folder import shard_file_name
from .limits import MAX_SHARD_DOCUMENTS, MAX_SHARDS
from .manifest import ShardEntry
from .shard import ShardFile
from .shard_reader import read_batches
from .workers import make_pool


class Shards:
    """Fills shard files in the order of the documents, each up to `max_shard_bytes`. Not thread-safe. Completes a
    shard in another thread, while it fills the next one."""

    def __init__(self, folder: Path, generation: int, layout: Layout, max_shard_bytes: int) -> None:
        self.has_payloads = False
        self._folder = folder
        self._generation = generation
        self._layout = layout
        self._max_shard_bytes = max_shard_bytes
        self._shard: Optional[ShardFile] = None
        self._shard_bytes = 0  # The size that the current shard's file will have.
        self._completed: list[Future[ShardEntry]] = []
        self._completer = make_pool(1, "maxsim-shard")

    def store(self, batch: Batch) -> None:
        """Appends documents to the current shard. If it is full, goes on with new shards."""
        ends = np.cumsum(self._layout.document_bytes(batch, self.has_payloads))
        first, begin = 0, 0
        while first < len(batch):
            if self._shard is None:
                self._open_shard()
            assert self._shard is not None
            room = self._max_shard_bytes - self._shard_bytes
            last = int(np.searchsorted(ends, begin + room, side="right"))
            last = min(last, first + MAX_SHARD_DOCUMENTS - self._shard.num_documents)
            if last <= first and self._shard.num_documents == 0:
                last = first + 1  # The document alone exceeds the limit, and gets its own shard.
            if last > first:
                self._shard.append(batch.part(first, last))
                end = int(ends[last - 1])
                self._shard_bytes += end - begin
                first, begin = last, end
            if first < len(batch):
                self._complete_shard()

    def _open_shard(self) -> None:
        if len(self._completed) >= MAX_SHARDS:
            raise CollectionError(
                f"max_shard_bytes: {self._max_shard_bytes} makes more than {MAX_SHARDS} shards, the limit"
            )
        self._shard = ShardFile(self._folder, self._generation, len(self._completed), self._layout)
        self._shard_bytes = self._layout.empty_bytes(self.has_payloads)
        if self.has_payloads:
            self._shard.begin_payloads()

    def _complete_shard(self) -> None:
        """Completes the current shard in another thread. There is only one such thread, because several would share
        the disk anyway."""
        if self._shard is None:
            return
        if self._completed:
            self._completed[-1].result()
        shard, self._shard = self._shard, None
        self._completed.append(self._completer.submit(shard.complete))

    def begin_payloads(self) -> None:
        """Call it when the first payload comes. From then on, every shard also stores the sizes of its payloads, which
        makes its file larger."""
        self.has_payloads = True
        if self._shard is None and not self._completed:
            return
        if self._shard is not None and not self._completed:
            larger = self._shard_bytes + 8 * (self._shard.num_documents + 1)
            if larger <= self._max_shard_bytes or self._shard.num_documents == 1:
                self._shard_bytes = larger
                self._shard.begin_payloads()
                return
        self._store_again()

    def _store_again(self) -> None:
        """Writes all stored documents into new shards, because with the sizes of payloads a shard may be too large."""
        self._complete_shard()
        entries = [future.result() for future in self._completed]
        self._completed = []
        # Gives the old shards numbers beyond the last possible one, so that new shards do not take their names.
        aside = [self._folder / shard_file_name(self._generation, MAX_SHARDS + i) for i in range(len(entries))]
        for entry, path in zip(entries, aside):
            os.rename(self._folder / entry.file, path)
        for entry, path in zip(entries, aside):
            for batch in read_batches(path, self._layout, entry):
                self.store(batch)
            os.unlink(path)

    def finish(self) -> list[ShardEntry]:
        """Completes the last shard, and returns the entries of all shards."""
        self._complete_shard()
        return [future.result() for future in self._completed]

    def close(self) -> None:
        """Ends the thread, and closes an incomplete shard. The folder removes its file."""
        try:
            self._completer.shutdown(wait=True, cancel_futures=True)
        finally:
            if self._shard is not None:
                self._shard.discard()
