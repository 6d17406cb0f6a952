"""A collection's folder while a generation is written into it: its lock, the leftovers of interrupted builds, and the
steps that publish a generation (docs/reference/formats.md)."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Callable, Optional

from .errors import CollectionError
from .manifest import MANIFEST_FILE, PREVIOUS_MANIFEST_FILE, SERVED_MANIFEST_FILE, Manifest, read_manifest

TEMPORARY_SUFFIX = ".tmp"
LOG_FOLDER = "log"  # in the folder of a live collection

_SHARD_NAME = re.compile(r"shard-(\d{6,18})-(\d{5,18})\.safetensors")
_FIELDS_NAME = re.compile(r"fields-(\d{6,18})-(\d{5,18})\.safetensors")
_CODES_NAME = re.compile(r"codes-(\d{6,18})-(\d{5,18})-(plane0|plane1|planes23)\.safetensors")


def shard_file_name(generation: int, index: int) -> str:
    return f"shard-{generation:06d}-{index:05d}.safetensors"


def code_file_name(generation: int, index: int, plane: str) -> str:
    return f"codes-{generation:06d}-{index:05d}-{plane}.safetensors"


def field_file_name(generation: int, index: int) -> str:
    return f"fields-{generation:06d}-{index:05d}.safetensors"


def generation_of(name: str) -> Optional[int]:
    """Returns the generation in a name that shard_file_name, field_file_name or code_file_name made. Returns None for
    any other name."""
    match = _SHARD_NAME.fullmatch(name) or _FIELDS_NAME.fullmatch(name) or _CODES_NAME.fullmatch(name)
    if match is None:
        return None
    generation, index, *plane = match.groups()
    numbers = int(generation), int(index)
    if plane:
        made = code_file_name(*numbers, *plane)
    else:
        made = field_file_name(*numbers) if name.startswith("fields") else shard_file_name(*numbers)
    return numbers[0] if made == name else None


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_file(path: Path) -> int:
    """Creates a file under a temporary name and returns its descriptor, for reading and writing. An existing file is
    replaced; a pipe, a link or a folder of this name is an error."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileExistsError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise CollectionError(
                f"cannot create {path}: something of that name that is not a file is in the way; remove it"
            ) from None
        os.unlink(path)
        return os.open(path, flags, 0o644)


def write_all(fd: int, data: object) -> None:
    """Writes all bytes of a buffer at the file's current position."""
    rest = memoryview(data).cast("B")  # type: ignore[arg-type]
    while len(rest) > 0:
        rest = rest[os.write(fd, rest[: 1 << 30]) :]


def no_locks_error() -> CollectionError:
    """Returns the error for a system where folder_lock cannot be imported."""
    return CollectionError("collections can be written on POSIX systems only, whose file locks keep writers apart")


def check_has_no_log(folder: Path) -> None:
    """Refuses a live collection. Only its log tells which writes a new generation must hold, and this package does
    not read logs."""
    if (folder / LOG_FOLDER).is_dir():
        raise CollectionError(
            f"{folder}: is a live collection, with a log of writes that a new generation might lose; write to another "
            "folder, and bring it there with maxsim-shard build --input FOLDER --log-sequence N"
        )


class OutputFolder:
    """The folder of a collection, locked. If folders were created for it and it stays empty, `release` removes
    them."""

    def __init__(self, folder: Path) -> None:
        try:
            from .folder_lock import FolderLock
        except ImportError:
            raise no_locks_error() from None
        self.path = folder
        check_has_no_log(folder)
        self._created = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(folder)
        except BaseException:
            self._remove_created()
            raise

    def release(self) -> None:
        """Releases the lock, and removes the created folders if they are empty."""
        try:
            self._lock.release()
        finally:
            self._remove_created()

    def _remove_created(self) -> None:
        for path in self._created:
            try:
                os.rmdir(path)
            except OSError:
                return

    def _remove(self, pick: Callable[[str], bool]) -> None:
        """Removes the files whose names `pick` accepts. A file that cannot be removed is not an error: the next build
        tries again."""
        with contextlib.suppress(OSError):
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            for name in filter(pick, names):
                with contextlib.suppress(OSError):
                    os.unlink(self.path / name)

    def remove_leftovers(self) -> Optional[Manifest]:
        """Removes temporary files, and shards of generations that were not published. Returns the manifest.

        Reads the manifest in the folder again, because a writer that was interrupted may not know that its rename has
        taken place. If the manifest cannot be read, this is an error, and only temporary files are removed."""

        def is_temporary(name: str) -> bool:
            target = name.removesuffix(TEMPORARY_SUFFIX)
            is_manifest = target in (MANIFEST_FILE, PREVIOUS_MANIFEST_FILE)
            return target != name and (is_manifest or generation_of(target) is not None)

        self._remove(is_temporary)
        published = read_manifest(self.path)
        files = published.files if published is not None else set()
        newest = published.generation if published is not None else 0

        def is_leftover(name: str) -> bool:
            generation = generation_of(name)
            return generation is not None and generation > newest and name not in files

        self._remove(is_leftover)
        return published

    def remove_old_generations(self, published: Manifest, before: Optional[Manifest]) -> None:
        """Removes the files of generations older than the predecessor of `published`. Keeps the files that the
        predecessor's manifest, `before`, names: adding codes keeps a generation's shards, so these may have older
        numbers. Also keeps the files of the generation that a server was told to serve, and everything if it is not
        known which one that is."""
        try:
            served = read_manifest(self.path, SERVED_MANIFEST_FILE)
        except (CollectionError, OSError):
            return
        files = published.files.union(*(one.files for one in (before, served) if one is not None))

        def is_old(name: str) -> bool:
            generation = generation_of(name)
            return generation is not None and generation < published.generation - 1 and name not in files

        self._remove(is_old)

    def _replace(self, name: str, data: bytes) -> None:
        """Writes a file and syncs it, and then gives it its name in one step."""
        temporary = self.path / (name + TEMPORARY_SUFFIX)
        fd = create_file(temporary)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, self.path / name)

    def _keep_previous(self) -> None:
        """Keeps the manifest of the generation that a server was told to serve or, if there is none, of the published
        one, so that servers can go back to it."""
        for name in (SERVED_MANIFEST_FILE, MANIFEST_FILE):
            with contextlib.suppress(CollectionError, PermissionError):
                if read_manifest(self.path, name) is not None:
                    return self._replace(PREVIOUS_MANIFEST_FILE, (self.path / name).read_bytes())

    def publish(self, manifest: Manifest) -> None:
        """Replaces the manifest by `manifest`, which publishes its shards, and keeps the one before. A signal may raise
        an exception at any point, so an exception does not mean that nothing was published: only the manifest in the
        folder tells."""
        for created in self._created:
            # A parent that cannot be read cannot be opened, and so cannot be synced. This is not an error.
            with contextlib.suppress(PermissionError):
                sync_folder(created.parent)
        self._keep_previous()
        sync_folder(self.path)  # The shards' names must be on the disk before a manifest that names them is.
        self._replace(MANIFEST_FILE, manifest.format().encode())

    def sync_published(self) -> Optional[OSError]:
        """Syncs the result of `publish` to the disk. Returns an error if this fails: after a power failure, the
        folder may then hold the previous generation."""
        try:
            sync_folder(self.path)
        except OSError as error:
            return error
        return None
