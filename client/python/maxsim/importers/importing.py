"""Writes the documents of a source into a collection or, for a dry run, only describes them."""

from __future__ import annotations

import dataclasses
import os
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from maxsim.collection import CollectionWriter
from maxsim.collection.dry_run import DryRunWriter
from maxsim.collection.codebook import Codebook
from maxsim.collection.errors import quote_id
from maxsim.collection.limits import MAX_DIM, MIN_DIM
from maxsim.collection.loss import QuantizationLoss
from maxsim.importers.payloads import json_payload
from maxsim.importers.registry import libraries_of, open_source
from maxsim.importers.source import (
    CodedSource,
    DocumentId,
    ImportOptions,
    PackedDocuments,
    PackedSource,
    Source,
    SourceDocument,
    SourceError,
)

STORAGES = ("f16", "bf16", "f32", "i8", "residual")

# Called once, with the folder and the number of the published generation.
OnPublished = Callable[[str, int], None]

# Called after each document, with the number of documents so far, the number of all documents or None, and the tokens
# so far.
Progress = Callable[[int, Optional[int], int], None]


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """What an import wrote, or what a dry run would write.

    id_type is "string" or "int64". num_payloads: documents with a payload. payload_fields: for each field, the number
    of documents that have it. num_skipped: documents without tokens, which were left out. num_bytes: the size of the
    shards; a dry run does not count their headers, a few KiB each. loss: the lossy tokens of i8 storage."""

    kind: str
    output: Optional[str]
    storage: str
    dim: int
    id_type: str
    num_documents: int
    num_tokens: int
    num_payloads: int
    payload_fields: Mapping[str, int]
    num_skipped: int
    num_bytes: int
    notes: Tuple[str, ...]
    loss: QuantizationLoss


class _Counter:
    """Checks each document of a source, passes it to a writer, and counts for the report."""

    def __init__(self, source: Source, columns: int, skip_empty: bool) -> None:
        self._columns = columns  # of the source's vectors, or of its rows of residual codes
        self._skip_empty = skip_empty
        self.id_type = ""
        self.num_documents = self.num_tokens = self.num_payloads = self.num_skipped = 0
        self.payload_fields: Dict[str, int] = {}

    def add(self, document: SourceDocument, writer: CollectionWriter) -> None:
        index = self.num_documents + self.num_skipped
        document_id = self._check_id(document.id, index)
        vectors = document.vectors
        if vectors.ndim != 2 or (vectors.shape[0] and vectors.shape[1] != self._columns):
            raise SourceError(
                f"document {index}, id {quote_id(document_id)}: vectors have shape {list(vectors.shape)}; "
                f"must be [tokens, {self._columns}]"
            )
        if vectors.shape[0] == 0:
            if not self._skip_empty:
                raise SourceError(
                    f"document {index}, id {quote_id(document_id)}: has no token vectors; "
                    "--skip-empty leaves such documents out"
                )
            self.num_skipped += 1
            return
        payload = None
        if document.payload:
            payload = json_payload(document.payload, f"document {index}, id {quote_id(document_id)}")
            self._count_payload(payload)
        writer.add(document_id, vectors, payload)
        self.num_documents += 1
        self.num_tokens += vectors.shape[0]

    def add_packed(self, documents: PackedDocuments, writer: CollectionWriter) -> None:
        """Adds documents as add() would one by one, but in one call. If one of them needs a note or an error, calls
        add() for each."""
        types = set(map(type, documents.ids))
        id_type = "string" if types == {str} else "int64" if types == {int} else ""
        is_usual = (
            (id_type == "string" or (id_type == "int64" and _fit_int64(documents.ids)))
            and self.id_type in ("", id_type)
            and documents.vectors.ndim == 2
            and documents.vectors.shape[1] == self._columns
            and int(documents.lengths.min()) > 0
        )
        if not is_usual:
            for document in documents.documents():
                self.add(document, writer)
            return
        payloads: Optional[List[Optional[Mapping[str, object]]]] = None
        if documents.payloads is not None:
            payloads = []
            for index, payload in enumerate(documents.payloads, self.num_documents + self.num_skipped):
                if payload:
                    id = documents.ids[len(payloads)]
                    payload = json_payload(payload, f"document {index}, id {quote_id(id)}")
                    self._count_payload(payload)
                payloads.append(payload)
        writer.add_packed(documents.ids, documents.vectors, documents.lengths, payloads)
        self.id_type = id_type
        self.num_documents += len(documents.ids)
        self.num_tokens += len(documents.vectors)

    def _check_id(self, id: object, index: int) -> DocumentId:
        if type(id) is str and self.id_type == "string":  # true for nearly all documents
            return id
        if isinstance(id, np.generic):
            id = id.item()
        if isinstance(id, bool) or not isinstance(id, (str, int)):
            raise SourceError(f"document {index}: its id is {_short(id)}; must be a string or an integer")
        if isinstance(id, int) and not -(2**63) <= id < 2**63:
            raise SourceError(f"document {index}: id {id} must fit in 64 bits")
        id_type = "string" if isinstance(id, str) else "int64"
        if self.id_type not in ("", id_type):
            raise SourceError(
                f"document {index}: id {quote_id(id)} is {id_type}, but those before it are {self.id_type}"
            )
        self.id_type = id_type
        return id

    def _count_payload(self, payload: Mapping[str, object]) -> None:
        self.num_payloads += 1
        for name in payload:
            self.payload_fields[name] = self.payload_fields.get(name, 0) + 1


def _fit_int64(ids: Sequence[DocumentId]) -> bool:
    return all(isinstance(id, int) and -(2**63) <= id < 2**63 for id in ids)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _copy(source: Source, counter: _Counter, writer: CollectionWriter, progress: Optional[Progress]) -> None:
    total = source.num_documents
    with libraries_of(source.kind):
        for documents in source.packed() if isinstance(source, PackedSource) else source:
            if isinstance(documents, PackedDocuments):
                counter.add_packed(documents, writer)
            else:
                counter.add(documents, writer)
            if progress is not None:
                progress(counter.num_documents + counter.num_skipped, total, counter.num_tokens)
    if counter.num_documents == 0:
        raise SourceError(f"{source.kind}: there is no document to import")


def _keep_codes(source: Source) -> Codebook:
    if not isinstance(source, CodedSource):
        raise SourceError(f"storage residual: {source.kind} has no residual codes; an index of plaid or colbert has")
    return source.keep_codes()


def import_collection(
    kind: str,
    path: Union[str, "os.PathLike[str]"],
    output: Union[str, "os.PathLike[str]", None] = None,
    *,
    storage: Optional[str] = None,
    codes: Optional[int] = None,
    fields: Optional[str] = None,
    name: Optional[str] = None,
    allow_other_shape: bool = False,
    refuse_lossy: bool = False,
    options: ImportOptions = ImportOptions(),
    skip_empty: bool = False,
    progress: Optional[Progress] = None,
    dry_run: bool = False,
    on_published: Optional[OnPublished] = None,
) -> ImportReport:
    """Imports the source at `path` as the collection `output`. With dry_run, reads the whole source and makes the
    same checks (also of `output`, if it is given), but writes nothing.

    kind: one of maxsim.importers.KINDS. storage: f16, bf16, f32, i8, or residual, which keeps the residual codes of
    an index (kinds plaid and colbert) unchanged. None means the storage of the existing collection, or f16 for a new
    one. codes, fields, name, allow_other_shape and refuse_lossy: as in CollectionWriter. skip_empty: leaves out and
    counts documents without tokens, instead of raising an error. on_published: called immediately after the
    generation is published, even if an interrupt then ends the import. SourceError or another ValueError: the source
    or one of its documents cannot be imported, and no generation is left behind."""
    if storage is not None and storage not in STORAGES:
        raise SourceError(f"storage {storage!r}: must be one of {', '.join(STORAGES)}")
    if output is None and not dry_run:
        raise SourceError("output: the folder of the collection must be given")
    source = open_source(kind, os.fspath(path), options)
    if not MIN_DIM <= source.dim <= MAX_DIM:
        raise SourceError(f"token vectors have {source.dim} columns; must have {MIN_DIM} to {MAX_DIM}")
    codebook = _keep_codes(source) if storage == "residual" else None
    counter = _Counter(source, source.dim if codebook is None else codebook.row_bytes, skip_empty)
    if dry_run or output is None:
        kind_of_writer: type[CollectionWriter] = DryRunWriter
    else:
        kind_of_writer = CollectionWriter
    writer = kind_of_writer(
        output,  # type: ignore[arg-type]  # None only in a dry run
        dim=source.dim,
        storage=storage if codebook is None else None,
        codebook=codebook,
        codes=codes,
        fields=fields,
        name=name,
        allow_other_shape=allow_other_shape,
        refuse_lossy=refuse_lossy,
    )
    try:
        with writer:
            _copy(source, counter, writer, progress)
    finally:
        writer.abort()  # Has an effect only if an interrupt came before the writer's own clean-up.
        if writer.summary is not None and on_published is not None and output is not None and not dry_run:
            on_published(os.fspath(output), writer.summary.generation)
    assert writer.summary is not None
    return ImportReport(
        kind=source.kind,
        output=None if dry_run or output is None else os.fspath(output),
        storage=writer.summary.storage,
        dim=source.dim,
        id_type=counter.id_type,
        num_documents=counter.num_documents,
        num_tokens=counter.num_tokens,
        num_payloads=counter.num_payloads,
        payload_fields=counter.payload_fields,
        num_skipped=counter.num_skipped,
        num_bytes=writer.summary.num_bytes,
        notes=tuple(source.notes),
        loss=writer.summary.loss,
    )
