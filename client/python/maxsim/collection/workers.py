"""The threads of a writer. They compute in parallel, because NumPy releases the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

_local = threading.local()


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _mark_thread() -> None:
    _local.is_of_pool = True


def make_pool(num_threads: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, name, initializer=_mark_thread)


def in_pool() -> bool:
    """Returns whether the calling thread belongs to a pool of make_pool. Such a thread cannot wait for its pool to
    end."""
    return getattr(_local, "is_of_pool", False)


class Workers:
    """Runs calls that convert and quantise in several threads, including the caller's."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._pool = make_pool(num_threads - 1, "maxsim-encode") if num_threads > 1 else None

    def run(self, calls: Sequence[Callable[[], None]]) -> None:
        """Returns when all calls have returned, or raises the first error."""
        if self._pool is None:
            for call in calls:
                call()
            return
        futures = [self._pool.submit(call) for call in calls[1:]]
        try:
            for call in calls[:1]:
                call()
        finally:
            errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
