"""Document ids: their checks, and the search for repeated ids."""

from __future__ import annotations

import operator
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .checksum import xxh3_128_digest
from .errors import CollectionError, quote
from .limits import MAX_ID_BYTES

MIN_INT64 = -(1 << 63)
MAX_INT64 = (1 << 63) - 1


def encode_id(id: Any) -> Union[bytes, int]:
    """Checks an id. Returns a string id in UTF-8, or an integer id as an int. NumPy's integers are accepted."""
    if isinstance(id, str):
        try:
            encoded = id.encode()
        except UnicodeEncodeError:
            raise CollectionError(f"id {quote(id)} is not UTF-8: it holds half a surrogate pair") from None
        if not encoded:
            raise CollectionError(f'id "": empty; must have 1 to {MAX_ID_BYTES} bytes')
        if len(encoded) > MAX_ID_BYTES:
            raise CollectionError(f"id {quote(id)}: {len(encoded)} bytes, the limit is {MAX_ID_BYTES}")
        return encoded
    if not isinstance(id, (bool, np.bool_)):
        try:
            number = operator.index(id)
        except TypeError:
            pass
        else:
            if not MIN_INT64 <= number <= MAX_INT64:
                raise CollectionError(f"id {number}: not in -2^63 .. 2^63 - 1")
            return number
    raise CollectionError(f"id {id!r:.200}: must be a string or a 64-bit integer, is {type(id).__name__}")


def format_id(id: Union[bytes, int]) -> str:
    """Returns an id in the form of messages."""
    return quote(id.decode()) if isinstance(id, bytes) else str(id)


class Duplicate(Exception):
    """An id repeats. Names the later document, by its number in the batch, and the earlier one, by its number among
    all documents."""

    def __init__(self, index: int, earlier: int) -> None:
        super().__init__(index, earlier)
        self.index = index
        self.earlier = earlier


class _Run:
    """Ids sorted by `high`. For string ids, `high` and `low` are the halves of a hash, and two ids differ if either
    half does. For integer ids, `high` is the id, and `low` is None."""

    def __init__(
        self, high: NDArray[np.uint64], low: Optional[NDArray[np.uint64]], ordinals: NDArray[np.int64]
    ) -> None:
        self.high = high
        self.low = low
        self.ordinals = ordinals

    @staticmethod
    def sorted(high: NDArray[np.uint64], low: Optional[NDArray[np.uint64]], ordinals: NDArray[np.int64]) -> _Run:
        order = np.argsort(high, kind="stable")
        return _Run(high[order], None if low is None else low[order], ordinals[order])

    def same(self, position: int, other: _Run, other_position: int) -> bool:
        if self.high[position] != other.high[other_position]:
            return False
        return self.low is None or other.low is None or bool(self.low[position] == other.low[other_position])

    def merged(self, other: _Run) -> _Run:
        low = None
        if self.low is not None and other.low is not None:
            low = np.concatenate([self.low, other.low])
        high = np.concatenate([self.high, other.high])
        return _Run.sorted(high, low, np.concatenate([self.ordinals, other.ordinals]))


class SeenIds:
    """All ids so far, in sorted runs of growing sizes. A string id takes 24 bytes: a hash of 128 bits and the
    document's number. An integer id takes 16. Merging two runs temporarily needs the memory of one more."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, ids: Union[list[bytes], NDArray[np.int64]], first_ordinal: int) -> None:
        """Adds the ids of documents, whose numbers begin at `first_ordinal`. Raises Duplicate for the first id that
        is already there."""
        if len(ids) == 0:
            return
        low = None
        if isinstance(ids, list):
            hashes = np.frombuffer(b"".join(map(xxh3_128_digest, ids)), dtype=np.uint64).reshape(-1, 2)
            high, low = hashes[:, 0], hashes[:, 1]
        else:
            high = ids.view(np.uint64)
        run = _Run.sorted(high, low, np.arange(first_ordinal, first_ordinal + len(ids), dtype=np.int64))
        found = self._inside(run)
        for earlier in self._runs:
            found += self._between(earlier, run)
        if found:
            ordinal, earlier_ordinal = min(found)
            raise Duplicate(ordinal - first_ordinal, earlier_ordinal)
        self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2].high) < 2 * len(self._runs[-1].high):
            last = self._runs.pop()
            self._runs[-1] = self._runs[-1].merged(last)

    @staticmethod
    def _inside(run: _Run) -> list[tuple[int, int]]:
        """Returns pairs of documents in one run that have the same id, the later document first. Equal keys are in
        the order of the documents."""
        found = []
        for position in np.flatnonzero(run.high[1:] == run.high[:-1]) + 1:
            # Documents whose `high` is equal are neighbours. Between two equal ids, there may be other ids with this
            # `high`.
            before = int(position) - 1
            while before >= 0 and run.high[before] == run.high[position]:
                if run.same(int(position), run, before):
                    found.append((int(run.ordinals[position]), int(run.ordinals[before])))
                before -= 1
        return found

    @staticmethod
    def _between(earlier: _Run, run: _Run) -> list[tuple[int, int]]:
        """Returns pairs of a document of `run` and a document of `earlier` that have the same id."""
        places = np.searchsorted(earlier.high, run.high)
        inside = places < len(earlier.high)
        matches = np.flatnonzero(inside)[earlier.high[places[inside]] == run.high[inside]]
        found = []
        for position in matches:
            place = int(places[position])
            while place < len(earlier.high) and earlier.high[place] == run.high[position]:
                if earlier.same(place, run, int(position)):
                    found.append((int(run.ordinals[position]), int(earlier.ordinals[place])))
                place += 1
        return found
