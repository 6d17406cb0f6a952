"""Index folders of colbert-ai, of RAGatouille, and of PyLate with its Stanford backend.

metadata.json                       num_chunks, and config with nbits
centroids.pt buckets.pt             [K, dim]; (cutoffs, weights [2^nbits])
doclens.I.json                      tokens of each passage of chunk I; 0 if it has been deleted
I.codes.pt I.residuals.pt           int32 [tokens] and uint8 [tokens, dim * nbits / 8] of chunk I
pid_docid_map.json                  RAGatouille: the document of each passage
collection.json                     RAGatouille: the texts of the passages
docid_metadata_map.json             RAGatouille: an object for each document
plaid_ids_to_documents_ids.pkl      PyLate: the ids"""

from __future__ import annotations

import collections
import itertools
import os
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from maxsim.collection.errors import quote
from maxsim.importers.document_labels import Payload, open_file_labels, with_fields
from maxsim.importers.indexes.index_files import read_object, read_texts
from maxsim.importers.indexes.residual_index import ResidualIndex
from maxsim.importers.source import (
    ALL_COLUMNS,
    DocumentId,
    ImportOptions,
    PackedDocuments,
    SourceError,
    check_options,
)
from maxsim.importers.readers.torch_files import Tensor, load_tensor, load_torch

_KIND = "colbert"
_DOCUMENTS = "pid_docid_map.json"
_TEXTS = "collection.json"
_METADATA = "docid_metadata_map.json"


def open_source(path: str, options: ImportOptions) -> ColbertSource:
    check_options(_KIND, options, ("payload_columns", "ids", "payloads"))
    return ColbertSource(path, options)


class ColbertSource(ResidualIndex):
    kind = _KIND

    def __init__(self, folder: str, options: ImportOptions) -> None:
        super().__init__(folder, options)
        metadata = self._read_index_metadata(
            "centroids.npy", "fast-plaid or PyLate, which --from plaid", "finished index of colbert-ai"
        )
        config = metadata.get("config")
        nbits = self._count(config if isinstance(config, dict) else {}, "nbits")
        num_chunks = self._count(metadata, "num_chunks")
        centroids = load_tensor(self._path("centroids.pt"), 2, ("f16", "bf16", "f32")).array()
        self._read_codec("colbert-ai", centroids, self._read_weights(), nbits, num_chunks)
        self._num_passages = sum(map(len, self._lengths))
        deleted = sum(lengths.count(0) for lengths in self._lengths)
        self.num_documents: Optional[int] = self._num_passages - deleted
        if deleted:
            self._notes.append(f"{deleted} deleted passages are left out")
        self._documents = self._read_documents()
        self._labels = open_file_labels(options, self._num_passages)
        self._ids = self._read_ids()
        self._metadata = self._read_metadata()
        self._texts = self._find_texts(deleted)

    def packed(self) -> Iterator[PackedDocuments]:
        first = 0
        texts = self._read_texts()
        labels = iter(self._labels) if self._labels is not None else None
        named = self._options.payload_columns not in ((), ALL_COLUMNS)
        of_folder = bool(self._documents) or self._texts is not None or named
        has_payloads = of_folder or labels is not None
        for vectors, lengths in self._decode():
            ids: List[DocumentId] = []
            payloads: List[Payload] = []
            for passage, (length, text) in enumerate(zip(lengths, texts), first):
                label = next(labels) if labels is not None else None
                if length:  # 0 if the passage has been deleted
                    payload = self._payload(passage, text) if of_folder else None
                    ids.append(self._id(passage) if label is None else label[0])
                    payloads.append(payload if label is None else with_fields(payload, label[1]))
            first += len(lengths)
            if ids:
                kept = np.array([length for length in lengths if length], dtype=np.int64)
                yield PackedDocuments(ids, vectors, kept, payloads if has_payloads else None)
        next(texts, None)  # The file of texts must end here, like the file of --ids.
        if labels is not None:
            next(labels, None)

    def _read_weights(self) -> np.ndarray:
        path = self._path("buckets.pt")
        buckets = load_torch(path)
        if not isinstance(buckets, (tuple, list)) or len(buckets) != 2 or not isinstance(buckets[1], Tensor):
            raise SourceError(f"{path}: must hold the cutoffs and the weights of the buckets")
        return buckets[1].array()

    def _decode(self) -> Iterator[Tuple[np.ndarray, Sequence[int]]]:
        """Yields the vectors of many passages, and the number of tokens of each."""
        for chunk, lengths in enumerate(self._lengths):
            codes = load_tensor(self._path(f"{chunk}.codes.pt"), 1, ("i32", "i64")).array()
            residuals = load_tensor(self._path(f"{chunk}.residuals.pt"), 2, ("u8",)).array()
            if len(codes) != sum(lengths):
                raise SourceError(
                    f"{self._path(f'{chunk}.codes.pt')}: has {len(codes)} tokens, but "
                    f"doclens.{chunk}.json says {sum(lengths)}"
                )
            yield from self._codec.decode_documents(lengths, codes, residuals)

    # RAGatouille splits a document into passages. Each passage becomes a document of the collection.

    def _read_documents(self) -> Dict[int, DocumentId]:
        """Returns RAGatouille's document of each passage. Empty if the index is not from RAGatouille."""
        path = self._path(_DOCUMENTS)
        if not os.path.exists(path):
            return {}
        documents: Dict[int, DocumentId] = {}
        for passage, document in read_object(path).items():
            if not passage.isdecimal() or isinstance(document, bool) or not isinstance(document, (str, int)):
                raise SourceError(
                    f"{path}: must map numbers of passages to ids, but maps {quote(passage, 40)} to "
                    f"{quote(str(document), 40)}"
                )
            documents[int(passage)] = document
        return documents

    def _read_ids(self) -> Optional[Mapping[int, DocumentId]]:
        if self._labels is not None:
            return None
        if self._documents:
            count = collections.Counter(self._documents.values())
            if len(count) == len(self._documents):
                self._notes.append(f"ids of RAGatouille ({_DOCUMENTS})")
                return self._documents
            self._notes.append("documents of several passages: the ids are DOCUMENT#PASSAGE, passages counted from 0")
            seen: Dict[DocumentId, int] = collections.defaultdict(int)
            ids: Dict[int, DocumentId] = {}
            for passage in sorted(self._documents):
                document = self._documents[passage]
                ids[passage] = f"{document}#{seen[document]}"
                seen[document] += 1
            return ids
        return self._read_pylate_ids(self._folder)

    def _id(self, passage: int) -> DocumentId:
        if self._ids is None:
            return passage
        if passage not in self._ids:
            raise SourceError(f"{self._folder}: passage {passage} has no id")
        return self._ids[passage]

    # Payloads, under the names that RAGatouille's results have.

    def _read_metadata(self) -> Mapping[str, object]:
        path = self._path(_METADATA)
        return read_object(path) if self._documents and os.path.exists(path) else {}

    def _find_texts(self, deleted: int) -> Optional[str]:
        """Returns the file of texts: the user's or RAGatouille's."""
        if self._options.payloads is not None:
            return self._options.payloads
        path = self._path(_TEXTS)
        if not self._documents or not os.path.exists(path):
            return None
        if deleted:
            # RAGatouille removes deleted texts from the list, but does not renumber the passages.
            self._notes.append(
                f"{_TEXTS} is left out: after a deletion its texts no longer stand at their passages' numbers"
            )
            return None
        return path

    def _read_texts(self) -> Iterator[Mapping[str, object]]:
        """Yields the fields of each passage in the file of texts."""
        if self._texts is None:
            yield from itertools.repeat({}, self._num_passages)
            return
        count = 0
        for fields in read_texts(self._texts):
            count += 1
            if count <= self._num_passages:
                yield fields
        if count != self._num_passages:
            raise SourceError(f"{self._texts}: has {count} texts, but there are {self._num_passages} passages")

    def _payload(self, passage: int, text: Mapping[str, object]) -> Optional[Mapping[str, object]]:
        fields: Dict[str, object] = dict(text)
        document = self._documents.get(passage)
        if document is not None:
            fields["document_id"] = document
            metadata = self._metadata.get(str(document))
            if metadata is not None:
                fields["document_metadata"] = metadata
        columns = self._options.payload_columns
        if columns in ((), ALL_COLUMNS):
            return fields or None
        missing = next((name for name in columns if name not in fields and name != "document_metadata"), None)
        if missing is not None:
            raise SourceError(
                f"{self._folder}: no column {missing!r} for the payload; there are {', '.join(fields) or 'none'}"
            )
        return {name: fields[name] for name in columns if name in fields} or None
