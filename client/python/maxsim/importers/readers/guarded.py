"""Makes errors of a source name the file, whichever library or line of code raises them."""

from __future__ import annotations

import contextlib
import struct
import zipfile
import zlib
from typing import Callable, Iterator, Optional, Sequence, TypeVar

from maxsim.collection.codebook import Codebook
from maxsim.importers.source import CodedSource, PackedDocuments, PackedSource, Source, SourceDocument, SourceError

# Exceptions that damaged or hostile data may cause. File errors are not in the list, because they name the file
# already. Exceptions of a faulty program, such as AttributeError, are not either, so that they keep their traceback.
_DATA_ERRORS = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SystemError,  # raised by extension modules on unexpected input
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

_Item = TypeVar("_Item")


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Turns an exception of reading the data at `path` into a SourceError that names it."""
    try:
        yield
    except SourceError:
        raise
    except _DATA_ERRORS as error:
        raise SourceError(f"{path}: cannot be read: {type(error).__name__}: {str(error)[:200]}") from error


def _named_items(items: Callable[[], Iterator[_Item]], path: str) -> Iterator[_Item]:
    with named_errors(path):
        iterator = items()
    while True:
        # The yield is outside the block: exceptions in the consumer are not errors of the data.
        with named_errors(path):
            item = next(iterator, None)
        if item is None:
            return
        yield item


class _GuardedSource:
    """A Source whose errors name `path`."""

    def __init__(self, source: Source, path: str) -> None:
        self._source = source
        self._path = path
        self.kind = source.kind
        self.dim = source.dim
        self.num_documents: Optional[int] = source.num_documents
        self.notes: Sequence[str] = source.notes

    def __iter__(self) -> Iterator[SourceDocument]:
        return _named_items(lambda: iter(self._source), self._path)


class _GuardedPackedSource(_GuardedSource):
    def __init__(self, source: PackedSource, path: str) -> None:
        super().__init__(source, path)
        self._packed = source.packed

    def packed(self) -> Iterator[PackedDocuments]:
        return _named_items(lambda: iter(self._packed()), self._path)


class _GuardedCodedSource(_GuardedPackedSource):
    def __init__(self, source: CodedSource, path: str) -> None:
        super().__init__(source, path)
        self._keep_codes = source.keep_codes

    def keep_codes(self) -> Codebook:
        with named_errors(self._path):
            return self._keep_codes()


def guarded(open_source: Callable[[], Source], path: str) -> Source:
    """Returns the source that `open_source` opens. Errors of opening and of reading it name `path`."""
    with named_errors(path):
        source = open_source()
    if isinstance(source, CodedSource):
        return _GuardedCodedSource(source, path)
    return _GuardedPackedSource(source, path) if isinstance(source, PackedSource) else _GuardedSource(source, path)
