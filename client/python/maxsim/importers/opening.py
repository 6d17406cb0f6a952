"""Opens the files of a source. What is no regular file is refused: reading a FIFO waits without end, and a device such
as /dev/zero has none."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, Any

from maxsim.importers.source import SourceError


def _open_descriptor(path: str, flags: int) -> int:
    # Opening a FIFO would wait for whoever writes it.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise SourceError(f"{path}: is a pipe or a device, must be a regular file")


def open_regular(path: str, mode: str = "rb", **options: Any) -> IO[Any]:
    """open(), for reading."""
    return open(path, mode, opener=_open_descriptor, **options)


def check_regular(path: str) -> None:
    """Raises what open_regular would, where a library opens the file itself."""
    open_regular(path).close()
