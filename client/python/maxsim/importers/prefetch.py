"""Reads ahead: the next item of an iterator is made while the one before is used."""

from __future__ import annotations

import queue
import threading
from typing import Iterator, Tuple, TypeVar

Item = TypeVar("Item")

# How often a thread that waits to hand over its item looks whether somebody still wants it; seconds.
_POLL = 0.1


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """The items of `items`, which a thread of its own advances by one ahead of the caller: at most three are in memory.
    An error of `items` is raised where its item would be. The thread ends when the iterator is closed or lost."""
    ready: queue.Queue[Tuple[bool, object]] = queue.Queue(maxsize=1)
    closed = threading.Event()

    def put(entry: Tuple[bool, object]) -> bool:
        while not closed.is_set():
            try:
                ready.put(entry, timeout=_POLL)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

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
        thread.join()
