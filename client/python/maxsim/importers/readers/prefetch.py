"""Reads ahead: the next item of an iterator is made while the one before is used."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import Iterator, Tuple, TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """The items of `items`, which a thread of its own advances by one ahead of the caller: at most three are in memory.
    An error of `items` is raised where its item would be. The thread ends when the iterator is closed or lost."""
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
        # The thread may be waiting for room, and what it brings is not wanted.
        while thread.is_alive():
            with suppress(queue.Empty):
                ready.get(timeout=0.01)
        thread.join()
