"""The threads of a writer. NumPy lets go of the interpreter's lock while it computes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

_local = threading.local()


def num_cores() -> int:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _mark_thread() -> None:
    _local.is_of_pool = True


def make_pool(num_threads: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, name, initializer=_mark_thread)


def in_pool() -> bool:
    """Returns whether the calling thread is of a pool that make_pool made, and so cannot wait for that pool's end."""
    return getattr(_local, "is_of_pool", False)


class Workers:
    """Runs calls that convert and quantise in a number of threads. The caller's thread is one of them."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._pool = make_pool(num_threads - 1, "maxsim-encode") if num_threads > 1 else None

    def run(self, calls: Sequence[Callable[[], None]]) -> None:
        """Returns when all calls have, or raises the first error among them."""
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
