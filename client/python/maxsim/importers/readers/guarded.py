"""Errors of a source name what is imported, whatever library or line of code raises them."""

from __future__ import annotations

import contextlib
import struct
import zipfile
import zlib
from typing import Callable, Iterator, Optional, Sequence, TypeVar

from maxsim.collection.codebook import Codebook
from maxsim.importers.source import CodedSource, PackedDocuments, PackedSource, Source, SourceDocument, SourceError

# Errors that reading damaged or hostile data may raise. File errors are not listed because they name the file already,
# nor are those of a wrong program, such as AttributeError, which keep their traceback.
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
    """Turns what reading the data at `path` raises into a SourceError that names it."""
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
        # The yield is outside of the block, because errors of the consumer are not errors of the data.
        with named_errors(path):
            item = next(iterator, None)
        if item is None:
            return
        yield item


class _GuardedSource:
    """A Source, with errors that name `path`."""

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
    """The source that `open_source` gives of what lies at `path`; errors of opening and of reading it name the path."""
    with named_errors(path):
        source = open_source()
    if isinstance(source, CodedSource):
        return _GuardedCodedSource(source, path)
    return _GuardedPackedSource(source, path) if isinstance(source, PackedSource) else _GuardedSource(source, path)
