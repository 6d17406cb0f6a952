"""Index folders of fast-plaid, of PyLate (which keeps the documents' ids next to the folder), and of NextPlaid.

    metadata.json                       num_chunks, nbits; NextPlaid's has "next_plaid_compatible"
    centroids.npy bucket_weights.npy    [K, dim] and [2^nbits]: float16 or float32, float32 in NextPlaid
    doclens.I.json                      tokens of each document of chunk I
    I.codes.npy I.residuals.npy         int64 [tokens] and uint8 [tokens, dim * nbits / 8] of chunk I
    merged_codes.npy merged_residuals.npy and .manifest.json
                                        codes and residuals of all chunks, followed by padding. In fast-plaid 1.7
                                        and later, and in frozen indexes of older versions, chunks may exist only here
    metadata.db                         payloads: a table METADATA with one row per document
    ../plaid_ids_to_documents_ids.pkl   PyLate's ids
    embeddings.npy                      vectors before coding, while there are few documents (fast-plaid)

Deleted documents leave no trace in these files. Documents that an update keeps in buffer.npy are in the chunks too."""

from __future__ import annotations

import os
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from maxsim.collection.codebook import Codebook
from maxsim.importers.document_labels import Payload, open_file_labels, with_fields
from maxsim.importers.indexes.index_files import map_array, read_object
from maxsim.importers.indexes.plaid_payloads import PayloadTable
from maxsim.importers.indexes.residual_index import ResidualIndex
from maxsim.importers.source import (
    ALL_COLUMNS,
    DocumentId,
    ImportOptions,
    PackedDocuments,
    SourceError,
    check_options,
)
from maxsim.importers.readers.pickles import load_object_array

_KIND = "plaid"
_FOLDER_OF_PYLATE = "fast_plaid_index"
# The value of --vectors-column that asks for the vectors in embeddings.npy.
_EXACT = "embeddings"


def open_source(path: str, options: ImportOptions) -> PlaidSource:
    check_options(_KIND, options, ("id_column", "payload_columns", "vectors_column", "ids"))
    inner = os.path.join(path, _FOLDER_OF_PYLATE)
    return PlaidSource(inner if os.path.isdir(inner) else path, options)


class PlaidSource(ResidualIndex):
    kind = _KIND

    def __init__(self, folder: str, options: ImportOptions) -> None:
        super().__init__(folder, options)
        metadata = self._read_index_metadata(
            "centroids.pt", "colbert-ai, which --from colbert", "index of fast-plaid, PyLate or NextPlaid"
        )
        nbits, num_chunks = self._count(metadata, "nbits"), self._count(metadata, "num_chunks")
        is_next_plaid = metadata.get("next_plaid_compatible") is True
        centroids, weights = map_array(self._path("centroids.npy")), map_array(self._path("bucket_weights.npy"))
        if not is_next_plaid:
            # fast-plaid itself computes with float16.
            centroids, weights = centroids.astype(np.float16), weights.astype(np.float16)
        library = "NextPlaid" if is_next_plaid else "fast-plaid"
        self._read_codec(library, centroids, weights, nbits, num_chunks)
        self.num_documents: Optional[int] = sum(map(len, self._lengths))
        self._exact = self._read_exact()
        self._table = self._open_table()
        self._labels = open_file_labels(options, self.num_documents)
        self._ids = self._read_ids()

    def keep_codes(self) -> Codebook:
        if self._exact is not None:
            raise SourceError(f"--vectors-column {_EXACT}: takes vectors before coding, not residual codes")
        return super().keep_codes()

    def packed(self) -> Iterator[PackedDocuments]:
        first = 0
        rows = self._rows()
        labels = iter(self._labels) if self._labels is not None else None
        for vectors, lengths in self._exact_blocks() if self._exact is not None else self._decode():
            numbers = range(first, first + len(lengths))
            of_block = [next(rows) for _ in numbers] if rows is not None else None
            ids = self._block_ids(numbers, of_block)
            payloads: Optional[List[Payload]] = None
            if of_block is not None:
                payloads = [self._payload(row) for row in of_block]
            if labels is not None:
                ids, fields = zip(*(next(labels) for _ in numbers)) if numbers else ((), ())
                payloads = [with_fields(*both) for both in zip(payloads or [None] * len(numbers), fields)]
            yield PackedDocuments(ids, vectors, np.array(lengths, dtype=np.int64), payloads)
            first = numbers.stop
        if labels is not None:
            next(labels, None)  # Raises an error if a file has grown since it was opened.

    # Vectors.

    def _exact_blocks(self) -> Iterator[Tuple[np.ndarray, Sequence[int]]]:
        assert self._exact is not None
        return ((document, [len(document)]) for document in self._exact)

    def _decode(self) -> Iterator[Tuple[np.ndarray, Sequence[int]]]:
        """Yields the vectors of many documents, and the number of tokens of each."""
        begins = {name: self._chunk_begins(name) for name in ("codes", "residuals")}
        for chunk, lengths in enumerate(self._lengths):
            if sum(lengths) == 0:
                if lengths:
                    yield np.zeros((0, self._codec.columns), np.float32), lengths
                continue
            codes = self._chunk(chunk, "codes", begins["codes"])
            residuals = self._chunk(chunk, "residuals", begins["residuals"])
            yield from self._codec.decode_documents(lengths, codes, residuals)

    def _chunk(self, chunk: int, name: str, begins: Sequence[int]) -> np.ndarray:
        """Returns the codes or residuals of a chunk. If the chunk has its own file, that is newer than the merged
        file and is used; otherwise the chunk's part of the merged file."""
        num_rows = sum(self._lengths[chunk])
        path = self._path(f"{chunk}.{name}.npy")
        if os.path.exists(path):
            rows = map_array(path)
        else:
            path = self._path(f"merged_{name}.npy")
            if not os.path.exists(path):
                raise SourceError(f"{self._folder}: has neither {chunk}.{name}.npy nor merged_{name}.npy")
            rows = map_array(path)[begins[chunk] : begins[chunk + 1]]
        if rows.ndim == 0 or len(rows) != num_rows:
            raise SourceError(
                f"{path}: chunk {chunk} has {len(rows) if rows.ndim else 0} tokens, but its doclens say {num_rows}: "
                "an update was interrupted; fast-plaid mends it when it opens the index"
            )
        return rows

    def _chunk_begins(self, name: str) -> List[int]:
        """Returns where each chunk begins in the merged file, and where the last one ends."""
        path = self._path(f"merged_{name}.manifest.json")
        manifest = read_object(path) if os.path.exists(path) else {}
        begins = [0]
        for chunk, lengths in enumerate(self._lengths):
            entry = manifest.get(f"{chunk}.{name}.npy")
            rows = entry.get("rows") if isinstance(entry, dict) else None
            begins.append(begins[-1] + (rows if type(rows) is int and rows >= 0 else sum(lengths)))
        return begins

    def _read_exact(self) -> Optional[List[np.ndarray]]:
        """Returns the vectors before coding, if the user asks for them. If not, but they exist, adds a note."""
        path = self._path("embeddings.npy")
        if self._options.vectors_column is None:
            if os.path.exists(path):
                self._notes.append(f"it holds the vectors before coding, too: --vectors-column {_EXACT} imports those")
            return None
        if self._options.vectors_column != _EXACT:
            raise SourceError(f"--vectors-column {self._options.vectors_column}: must be {_EXACT} here, or left out")
        vectors = [np.asarray(document) for document in load_object_array(path)]
        lengths = [length for chunk in self._lengths for length in chunk]
        if [document.shape for document in vectors] != [(length, self.dim) for length in lengths]:
            raise SourceError(f"{path}: holds other documents than the index: leave --vectors-column out")
        return vectors

    # Ids and payloads.

    def _read_ids(self) -> Optional[Sequence[DocumentId]]:
        """Returns the ids by document number, from a column of the payloads or the lines of --ids. None if the ids are
        the document numbers."""
        assert self.num_documents is not None
        if self._options.ids is not None or self._options.id_column is not None:
            return None
        inner = os.path.normpath(self._folder)
        is_pylate = os.path.basename(inner) == _FOLDER_OF_PYLATE
        ids = self._read_pylate_ids(os.path.dirname(inner) if is_pylate else self._folder, self.num_documents)
        return None if ids is None else [ids[number] for number in range(self.num_documents)]

    def _rows(self) -> Optional[Iterator[Mapping[str, object]]]:
        """Returns the rows of metadata.db, one per document, or None if there is no such file."""
        assert self.num_documents is not None
        return self._table.rows(self.num_documents) if self._table is not None else None

    def _open_table(self) -> Optional[PayloadTable]:
        path = self._path("metadata.db")
        named = [name for name in self._options.payload_columns if name != "*"]
        if self._options.id_column is not None:
            named.append(self._options.id_column)
        if not os.path.exists(path):
            if named:
                raise SourceError(f"{path}: does not exist, so there is no column {named[0]!r}")
            return None
        table = PayloadTable(path)
        table.check(named)
        return table

    def _block_ids(self, numbers: range, rows: Optional[Sequence[Mapping[str, object]]]) -> Sequence[DocumentId]:
        if self._ids is not None:
            return self._ids[numbers.start : numbers.stop]
        column = self._options.id_column
        if column is None or rows is None:
            return list(numbers)
        ids: List[DocumentId] = []
        for number, row in zip(numbers, rows):
            value = row.get(column)
            if not isinstance(value, (str, int)):
                raise SourceError(f"{self._path('metadata.db')}: document {number} has no id in the column {column!r}")
            ids.append(value)
        return ids

    def _payload(self, row: Mapping[str, object]) -> Optional[Mapping[str, object]]:
        if not row:
            return None
        columns = self._options.payload_columns
        if columns in ((), ALL_COLUMNS):
            columns = tuple(name for name in row if name != self._options.id_column)
        return {name: row[name] for name in columns if name in row} or None
