"""The interface of importers. An importer makes a Source, which streams documents out of another library's files.

A kind is a module `maxsim/importers/FAMILY/KIND.py` (registry.py) with one function

    def open_source(path: str, options: ImportOptions) -> Source

It reads only what it needs to describe the source. It raises SourceError if the source cannot be of its kind.
"""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union, runtime_checkable

import numpy as np

from maxsim.collection.codebook import Codebook
from maxsim.collection.errors import CollectionError
from maxsim.collection.ids import encode_id

# All fields of a document go into its payload.
ALL_COLUMNS = ("*",)

# If the user names no column or array of ids, the importer takes the first of these that exists. Case does not matter.
ID_NAMES = ("id", "_id", "ids", "doc_id", "doc_ids", "docid", "docids", "document_id", "pid")

# A note lists at most this many names.
_MAX_NAMES = 20

DocumentId = Union[str, int]


class SourceError(ValueError):
    """The source cannot be imported. The message is one line, which names the file or column, the value and the
    limit."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class OptionError(SourceError):
    """The user has given an option that the kind does not take. The command line is wrong, whatever the source
    holds."""


class SourceDocument(NamedTuple):
    """One document in the form that a collection takes.

    id: a string or a 64-bit integer, the same type for all documents of a source. vectors: [tokens, dim], float32 or
    float16; for a null row of the source, an array without tokens. payload: a JSON object, or None."""

    id: DocumentId
    vectors: np.ndarray
    payload: Optional[Mapping[str, object]] = None


class Source(Protocol):
    """Documents that another library wrote.

    Iterating streams them in the order of the source, in memory that does not grow with their number. It may be
    repeated. num_documents is the number of documents, or None if only iterating can tell. notes are lines for the
    user, for example which version wrote the source and what is lost."""

    kind: str
    dim: int
    num_documents: Optional[int]
    notes: Sequence[str]

    def __iter__(self) -> Iterator[SourceDocument]: ...


@dataclasses.dataclass(frozen=True)
class ImportOptions:
    """The user's options for a source. A kind refuses an option that it does not take (check_options), so that none
    is ignored. None or () lets the kind decide."""

    # Column (key, field, member) with the ids.
    id_column: Optional[str] = None
    # Column with the token vectors.
    vectors_column: Optional[str] = None
    # Columns that go into the payload, under their names. ALL_COLUMNS means all columns that have no other use.
    payload_columns: Tuple[str, ...] = ()
    # Column, member or file with the number of tokens of each document.
    lengths: Optional[str] = None
    # Column, member or file with the mask, which says which tokens count.
    mask: Optional[str] = None
    # Table, collection, group or data set inside the source.
    table: Optional[str] = None
    # Part of a data set, such as "train".
    split: Optional[str] = None
    # A file with one line per document, in order: its id, or a JSON object with its id and fields for its payload.
    ids: Optional[str] = None
    # File with the documents' texts or other data, if it is separate from the source.
    payloads: Optional[str] = None
    # Number of columns of a token vector. Needed if the source stores tokens * dim values in a row, and otherwise
    # checked.
    dim: Optional[int] = None
    # Column with a token's position in its document, if the source has one row per token.
    token_column: Optional[str] = None
    # Each byte of a vector holds eight columns (a set bit is 1, others are 0).
    unpack_bits: Optional[bool] = None


class PackedDocuments(NamedTuple):
    """Consecutive documents, with the same data as in SourceDocument.

    vectors [sum of lengths, dim] has the vectors of one document after the other. lengths [documents], int64, may be
    0. payloads is None if no document has one."""

    ids: Sequence[DocumentId]
    vectors: np.ndarray
    lengths: np.ndarray
    payloads: Optional[Sequence[Optional[Mapping[str, object]]]] = None

    def documents(self) -> Iterator[SourceDocument]:
        ends = np.cumsum(self.lengths).tolist()
        vectors = (self.vectors[begin:end] for begin, end in zip([0, *ends], ends))
        if self.payloads is None:
            return map(SourceDocument, self.ids, vectors)
        return map(SourceDocument, self.ids, vectors, self.payloads)


@runtime_checkable
class PackedSource(Source, Protocol):
    """A Source that also yields many documents at a time, which is faster. A class that inherits from it yields
    single documents by splitting these."""

    def packed(self) -> Iterator[PackedDocuments]: ...

    def __iter__(self) -> Iterator[SourceDocument]:
        for documents in self.packed():
            yield from documents.documents()


@runtime_checkable
class CodedSource(PackedSource, Protocol):
    """A PackedSource of residual codes. It decodes them, unless keep_codes is called."""

    def keep_codes(self) -> Codebook:
        """Makes the source yield coded rows instead of vectors. Returns the codebook of these rows. SourceError if a
        collection cannot hold the codes unchanged."""
        ...


def check_options(kind: str, options: ImportOptions, takes: Sequence[str]) -> None:
    """Raises OptionError if the user has set an option that is not one of the fields `takes`."""
    for field in dataclasses.fields(options):
        if field.name not in takes and getattr(options, field.name) not in (None, ()):
            flag = "--" + field.name.replace("_", "-")
            taken = ", ".join("--" + name.replace("_", "-") for name in takes) or "no option of its own"
            raise OptionError(f"{flag}: {kind} does not take it; it takes {taken}")


def first_named(names: Sequence[str], available: Iterable[str]) -> Optional[str]:
    """Returns the first of `names` that is available, ignoring case, in the spelling of `available`. `names` are in
    lower case."""
    spellings = list(available)
    found = {spelling.lower(): spelling for spelling in reversed(spellings)}
    found.update((spelling, spelling) for spelling in spellings)
    return next((found[name] for name in names if name in found), None)


def note_left(names: Sequence[str], noun: str = "column") -> List[str]:
    """Returns a note on columns (or fields) that could go into the payload but do not. No note if there are none."""
    if not names:
        return []
    shown = ", ".join(map(str, names[:_MAX_NAMES])) + (
        f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    )
    if len(names) == 1:
        return [f"{noun} {shown} is not taken; --payload-columns takes it"]
    return [f"{noun}s {shown} are not taken; --payload-columns takes them"]


def checked_line(id: str, where: str) -> str:
    """Checks an id, which is a line of a file, and returns it unchanged. Raises SourceError if it is not a valid id;
    `where` says where the line is."""
    if not id:
        raise SourceError(f"{where}: an empty line, but each line must be an id")
    try:
        encode_id(id)
    except CollectionError as error:
        raise SourceError(f"{where}: {error}") from None
    return id
