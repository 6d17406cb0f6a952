"""Reads ahead: makes the next item of an iterator while the caller uses the current one."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import Iterator, Tuple, TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """Yields the items of `items`. Another thread advances the iterator ahead of the caller, so that at most three
    items are in memory. An exception of `items` is raised in the place of its item. The thread ends when the iterator
    is closed or garbage-collected."""
    ready: queue.Queue[Tuple[bool, object]] = queue.Queue(maxsize=1)
    closed = threading.Event()

    def read() -> None:
        try:
            for item in items:
                ready.put((True, item))
                if closed.is_set():
                    return
            ready.put((False, None))
        except BaseException as error:
            ready.put((False, error))

    thread = threading.Thread(target=read, name="maxsim-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            is_item, value = ready.get()
            if is_item:
                yield value  # type: ignore[misc]
            elif value is None:
                return
            else:
                assert isinstance(value, BaseException)
                raise value
            del value
    finally:
        closed.set()
        # The thread may be waiting to hand over an item that is no longer needed.
        while thread.is_alive():
            with suppress(queue.Empty):
                ready.get(timeout=0.01)
        thread.join()
