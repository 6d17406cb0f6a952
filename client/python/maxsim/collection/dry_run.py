"""DryRunWriter checks everything that a CollectionWriter checks, and writes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Optional, Union

from .batch import Batch, Layout
from .codebook import Codebook
from .codes import CodesFormat
from .folder import OutputFolder, check_has_no_log, no_locks_error
from .manifest import Manifest, ShardEntry, check_name
from .shards import Shards
from .writer import CollectionWriter


class DryRunWriter(CollectionWriter):
    """Raises the errors that a CollectionWriter would raise for the folder, the options and the documents, except
    those that only writing to the disk can show, such as a full disk.

    folder: where the collection would go. If it is None, only the documents are checked. `close` returns the Summary
    of the collection that would be published. Its num_bytes do not include the headers of the shards, and it counts
    one shard."""

    def __init__(
        self,
        folder: Union[str, os.PathLike[str], None],
        *,
        dim: int,
        storage: Optional[str] = None,
        codebook: Optional[Codebook] = None,
        codes: Optional[int] = None,
        fields: Optional[str] = None,
        name: Optional[str] = None,
        allow_other_shape: bool = False,
        refuse_lossy: bool = False,
    ) -> None:
        self._has_folder = folder is not None
        super().__init__(
            os.curdir if folder is None else folder,
            dim=dim,
            storage=storage,
            codebook=codebook,
            codes=codes,
            fields=fields,
            name=name,
            allow_other_shape=allow_other_shape,
            refuse_lossy=refuse_lossy,
        )

    def _open_folder(self, folder: Path) -> OutputFolder:
        if self._has_folder:
            _check_folder(folder)
        return _UnwrittenFolder(folder)

    def _read_published(self) -> Optional[Manifest]:
        return super()._read_published() if self._has_folder else None

    def _choose_name(self, name: Optional[str]) -> str:
        if self._has_folder:
            return super()._choose_name(name)
        return "" if name is None else check_name(name)

    def _open_shards(self, layout: Layout) -> Shards:
        return _CountedShards(layout)

    def _encode(self, layout: Layout, entries: list[ShardEntry]) -> tuple[Optional[CodesFormat], list[ShardEntry]]:
        return None, entries

    def _write_fields(self, layout: Layout, entries: list[ShardEntry]) -> list[ShardEntry]:
        return entries


class _UnwrittenFolder(OutputFolder):
    """An OutputFolder that is not created or locked, and in which nothing is published or removed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def release(self) -> None:
        pass

    def remove_leftovers(self) -> Optional[Manifest]:
        return None

    def remove_old_generations(self, published: Manifest, before: Optional[Manifest]) -> None:
        pass

    def publish(self, manifest: Manifest) -> None:
        pass


class _CountedShards(Shards):
    """Counts documents instead of storing them."""

    def __init__(self, layout: Layout) -> None:
        self.has_payloads = False
        self._layout = layout
        self._num_documents = self._num_tokens = self._num_bytes = 0

    def store(self, batch: Batch) -> None:
        self._num_documents += len(batch)
        self._num_tokens += int(batch.lengths.sum())
        self._num_bytes += int(self._layout.document_bytes(batch, has_payloads=False).sum())
        self._num_bytes += int(batch.payload_sizes.sum())

    def begin_payloads(self) -> None:
        self.has_payloads = True

    def finish(self) -> list[ShardEntry]:
        num_bytes = self._num_bytes + (8 * self._num_documents if self.has_payloads else 0)
        return [ShardEntry("", self._num_documents, self._num_tokens, num_bytes, "")]

    def close(self) -> None:
        pass


def _check_folder(folder: Path) -> None:
    """Raises the errors that OutputFolder(folder) would raise."""
    try:
        from .folder_lock import LOCK_FILE, check_unlocked
    except ImportError:
        raise no_locks_error() from None
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    if missing:
        outermost = missing[-1]
        if os.path.lexists(outermost):  # a link to a path that does not exist
            raise _os_error(errno.EEXIST, outermost)
        if not outermost.parent.is_dir():
            raise _os_error(errno.ENOTDIR, folder)
        _check_writable(outermost.parent, outermost)
        return
    if not folder.is_dir():
        raise _os_error(errno.EEXIST, folder)
    check_has_no_log(folder)
    check_unlocked(folder)
    _check_writable(folder, folder / LOCK_FILE)


def _check_writable(folder: Path, entry: Path) -> None:
    """Raises the error that creating `entry` in `folder` would raise."""
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise _os_error(errno.EROFS, entry)
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _os_error(errno.EACCES, entry)


def _os_error(number: int, path: Path) -> Any:
    return OSError(number, os.strerror(number), str(path))
