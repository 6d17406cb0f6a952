"""The lock that keeps builds of one folder apart, which maxsim-shard takes too. Importing this module is an ImportError
where the system has no such locks."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from .errors import CollectionError

LOCK_FILE = ".maxsim-build.lock"

# Each attempt but the last has met another build's end.
_LOCK_ATTEMPTS = 1000


def check_unlocked(folder: Path) -> None:
    """Raises the error of a folder that another build writes to. Takes the lock for a moment, where its file is there."""
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
    """A folder's lock, held from the constructor to `release`."""

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
            # Between the two calls the holder before may have removed the file: then the next one locks another.
            if _has_name(fd, self._path):
                return fd
            os.close(fd)
        raise CollectionError(f"{self._path}: removed as soon as it is there, {_LOCK_ATTEMPTS} times")

    def release(self) -> None:
        """Gives the lock back, and removes its file."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            # Removes the file before the lock is released, so that no other process locks this file and then loses it.
            if _has_name(fd, self._path):
                os.unlink(self._path)
        finally:
            # A process that was forked meanwhile has the descriptor too, and closing ours would leave it locked.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def _locked_error(folder: Path) -> CollectionError:
    return CollectionError(f"{folder}: another build is writing to this folder")


def _has_name(fd: int, path: Path) -> bool:
    """Returns whether an open file is the one that has the name."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False
