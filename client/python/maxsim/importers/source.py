"""What an importer is: a Source, which streams documents out of what another library wrote.

A kind is a module `maxsim/importers/FAMILY/KIND.py` (registry.py) with one function

    def open_source(path: str, options: ImportOptions) -> Source

which reads as little as it needs to say what is there, and raises SourceError if it cannot be that kind.
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
    """What is to be imported cannot be: one line, which names the file or column, the value and the limit."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class OptionError(SourceError):
    """The user has said what the kind does not take: the command line is wrong, whatever the source holds."""


class SourceDocument(NamedTuple):
    """One document as it goes into a collection.

    id: a string or a 64-bit integer, the same for all documents of a source. vectors: [tokens, dim], float32 or
    float16; a null row of the source is an array of zero tokens. payload: a JSON object, or None if there is
    none."""

    id: DocumentId
    vectors: np.ndarray
    payload: Optional[Mapping[str, object]] = None


class Source(Protocol):
    """Documents that another library wrote.

    Iterating streams them in the order of the source, with memory that does not grow with their number, and may be done
    again. num_documents counts the documents that iterating gives, or is None if only iterating can tell. notes
    are lines for people: which version wrote it, what is lost."""

    kind: str
    dim: int
    num_documents: Optional[int]
    notes: Sequence[str]

    def __iter__(self) -> Iterator[SourceDocument]: ...


@dataclasses.dataclass(frozen=True)
class ImportOptions:
    """The options that a user gives for a source. A kind refuses those that it does not take (check_options), so that
    no flag is ignored. With None and () the kind decides."""

    # Column (key, field, member) that holds the ids.
    id_column: Optional[str] = None
    # Column that holds the token vectors.
    vectors_column: Optional[str] = None
    # Columns that go into the payload, under their names; ALL_COLUMNS for every other one.
    payload_columns: Tuple[str, ...] = ()
    # Column, member or file of the number of tokens of each document.
    lengths: Optional[str] = None
    # Column, member or file of the mask of the tokens that count.
    mask: Optional[str] = None
    # Table, collection, group or data set inside the source.
    table: Optional[str] = None
    # Part of a data set, such as "train".
    split: Optional[str] = None
    # A file with one line per document, in order: its id, or a JSON object with its id and fields for its payload.
    ids: Optional[str] = None
    # File that holds the texts or other data of the documents, where it lies apart from the source.
    payloads: Optional[str] = None
    # Columns of a token vector, where the source keeps tokens * dim values in a row; checked everywhere else.
    dim: Optional[int] = None
    # Column of a token's position in its document, where the source keeps a token a row.
    token_column: Optional[str] = None
    # Each byte of a vector holds eight columns (a set bit is 1, others are 0).
    unpack_bits: Optional[bool] = None


class PackedDocuments(NamedTuple):
    """Neighbouring documents, with the same data as SourceDocument has for one.

    vectors [sum of lengths, dim] has the vectors of one document after the other; lengths [documents], int64, may be 0.
    payloads is None if no document has one."""

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
    """A Source that also gives its documents many at a time, which is faster. Those that inherit from it give them one
    by one out of these."""

    def packed(self) -> Iterator[PackedDocuments]: ...

    def __iter__(self) -> Iterator[SourceDocument]:
        for documents in self.packed():
            yield from documents.documents()


@runtime_checkable
class CodedSource(PackedSource, Protocol):
    """A PackedSource of residual codes, which it decodes unless it is asked to keep them."""

    def keep_codes(self) -> Codebook:
        """Makes the source give its residual codes as they are: rows of the codebook that is returned in place of
        vectors. SourceError for codes that a collection cannot hold so."""
        ...


def check_options(kind: str, options: ImportOptions, takes: Sequence[str]) -> None:
    """Raises OptionError where an option is set that is not one of the fields `takes`."""
    for field in dataclasses.fields(options):
        if field.name not in takes and getattr(options, field.name) not in (None, ()):
            flag = "--" + field.name.replace("_", "-")
            taken = ", ".join("--" + name.replace("_", "-") for name in takes) or "no option of its own"
            raise OptionError(f"{flag}: {kind} does not take it; it takes {taken}")


def first_named(names: Sequence[str], available: Iterable[str]) -> Optional[str]:
    """Returns the first of `names`, which are in lower case, that is available in any case, as it is spelled there."""
    spellings = list(available)
    found = {spelling.lower(): spelling for spelling in reversed(spellings)}
    found.update((spelling, spelling) for spelling in spellings)
    return next((found[name] for name in names if name in found), None)


def note_left(names: Sequence[str], noun: str = "column") -> List[str]:
    """The note on columns (or fields) that could go into the payload but do not; no note if there are none."""
    if not names:
        return []
    shown = ", ".join(map(str, names[:_MAX_NAMES])) + (
        f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    )
    if len(names) == 1:
        return [f"{noun} {shown} is not taken; --payload-columns takes it"]
    return [f"{noun}s {shown} are not taken; --payload-columns takes them"]


def checked_line(id: str, where: str) -> str:
    """`id`, which is a line of a file; SourceError, which begins with `where`, for one that no document can have."""
    if not id:
        raise SourceError(f"{where}: an empty line, each line is an id")
    try:
        encode_id(id)
    except CollectionError as error:
        raise SourceError(f"{where}: {error}") from None
    return id
