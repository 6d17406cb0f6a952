"""The lock that prevents two builds from writing to one folder. maxsim-shard takes it too. On a system without such
locks, importing this module raises ImportError."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from .errors import CollectionError

LOCK_FILE = ".maxsim-build.lock"

# An attempt fails only if another build ends during it.
_LOCK_ATTEMPTS = 1000


def check_unlocked(folder: Path) -> None:
    """Raises an error if another build is writing to the folder. If the lock's file exists, takes the lock for a
    moment."""
    try:
        fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _locked_error(folder) from None
    finally:
        os.close(fd)


class FolderLock:
    """A folder's lock, held from the constructor until `release`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._fd = self._acquire()

    def _acquire(self) -> int:
        for _ in range(_LOCK_ATTEMPTS):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                raise _locked_error(self._path.parent) from None
            except BaseException:
                os.close(fd)
                raise
            # Between open and flock, the previous holder may have removed the file. This lock is then useless,
            # because the next process locks a new file.
            if _has_name(fd, self._path):
                return fd
            os.close(fd)
        raise CollectionError(f"{self._path}: another program removed it {_LOCK_ATTEMPTS} times, each time as soon as it was created")

    def release(self) -> None:
        """Releases the lock, and removes its file."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            # Removes the file before it releases the lock. Otherwise another process could lock this file and then
            # lose it.
            if _has_name(fd, self._path):
                os.unlink(self._path)
        finally:
            # Unlocks explicitly: a process that was forked in the meantime shares the descriptor, so closing ours
            # would not unlock.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def _locked_error(folder: Path) -> CollectionError:
    return CollectionError(f"{folder}: another build is writing to this folder")


def _has_name(fd: int, path: Path) -> bool:
    """Returns whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False
