"""Opens the files of a source. Refuses everything that is not a regular file: reading a FIFO may wait forever, and a
device such as /dev/zero has no end."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, Any

from maxsim.importers.source import SourceError


def _open_descriptor(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise SourceError(f"{path}: is a pipe or a device; must be a regular file")


def open_regular(path: str, mode: str = "rb", **options: Any) -> IO[Any]:
    """Opens a regular file for reading, with the options of open()."""
    return open(path, mode, opener=_open_descriptor, **options)


def check_folder(path: str) -> None:
    """Raises SourceError if the folder, or any folder in it, holds something that is neither a regular file nor a
    folder. Call it before a library opens the folder's files itself. Follows symbolic links, as libraries do."""
    seen = set()
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                elif not entry.is_file() and os.path.exists(entry.path):
                    raise SourceError(f"{entry.path}: is a pipe or a device; must be a regular file")


def check_regular(path: str) -> None:
    """Raises the errors of open_regular. For files that a library opens itself."""
    open_regular(path).close()
