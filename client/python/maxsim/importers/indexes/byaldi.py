"""Index folders of byaldi, which indexes the pages of files. Each page becomes a document of the collection.

index_config.json.gz                model_name, library_version
embeddings/embeddings_N.pt          a list of tensors [tokens, dim], of pages N to N + 499
embed_id_to_doc_id.json.gz          the file and the page of each tensor
doc_ids_to_file_names.json.gz, metadata.json.gz     the name and the metadata of each file
collection/M.json.gz                images of pages, which are not imported"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from maxsim.importers.indexes.index_files import read_object
from maxsim.importers.source import DocumentId, ImportOptions, SourceDocument, SourceError, check_options
from maxsim.importers.readers.tensors import document_vectors, find_dim, natural_order
from maxsim.importers.readers.torch_files import load_torch

_KIND = "byaldi"


def open_source(path: str, options: ImportOptions) -> ByaldiSource:
    check_options(_KIND, options, ("payload_columns",))
    return ByaldiSource(path, options)


class ByaldiSource:
    kind = _KIND

    def __init__(self, folder: str, options: ImportOptions) -> None:
        self._folder = folder
        self._columns = options.payload_columns
        self.notes: List[str] = []
        if not os.path.exists(self._path("index_config.json.gz")):
            raise SourceError(f"{folder}: has no index_config.json.gz: it is not an index of byaldi")
        config = read_object(self._path("index_config.json.gz"))
        self.notes.append(
            f"index of byaldi {str(config.get('library_version'))[:20]}, model {str(config.get('model_name'))[:100]}"
        )
        embeddings = self._path("embeddings")
        names = natural_order([name for name in os.listdir(embeddings) if name.endswith(".pt")])
        self._files = [os.path.join(embeddings, name) for name in names]
        if not self._files:
            raise SourceError(f"{embeddings}: has no embeddings_N.pt")
        self._pages = self._read_pages()
        self._file_names = self._read_optional("doc_ids_to_file_names.json.gz")
        self._metadata = self._read_optional("metadata.json.gz")
        self.num_documents: Optional[int] = len(self._pages)
        self.dim = find_dim(iter(self._tensors(self._files[0])), self._files[0])
        self._has_several = len({document for document, _ in self._pages}) < len(self._pages)
        if self._has_several:
            self.notes.append("documents of several pages: the ids are DOCUMENT#PAGE, pages counted from 1")
        if os.path.isdir(self._path("collection")):
            self.notes.append("the images of the pages are not imported")

    def __iter__(self) -> Iterator[SourceDocument]:
        number = 0
        for file in self._files:
            for tensor in self._tensors(file):
                if number == len(self._pages):
                    raise SourceError(f"{file}: has more pages than embed_id_to_doc_id.json.gz, which has {number}")
                document, page = self._pages[number]
                document_id = f"{document}#{page}" if self._has_several else document
                vectors = document_vectors(tensor, f"{file}: page {number}")
                yield SourceDocument(document_id, vectors, self._payload(document, page))
                number += 1
        if number != len(self._pages):
            raise SourceError(
                f"{self._folder}: has {number} pages, but embed_id_to_doc_id.json.gz has {len(self._pages)}"
            )

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _tensors(self, file: str) -> List[object]:
        value = load_torch(file)
        if not isinstance(value, list):
            raise SourceError(f"{file}: holds a {type(value).__name__}; must hold a list of tensors")
        return value

    def _read_pages(self) -> List[Tuple[DocumentId, int]]:
        """Returns document and page of each tensor, in order."""
        path = self._path("embed_id_to_doc_id.json.gz")
        entries = read_object(path)
        pages: List[Tuple[DocumentId, int]] = []
        for number in range(len(entries)):
            entry = entries.get(str(number))
            document = entry.get("doc_id") if isinstance(entry, dict) else None
            page = entry.get("page_id") if isinstance(entry, dict) else None
            if not isinstance(document, (str, int)) or not isinstance(page, int):
                raise SourceError(f"{path}: page {number} has no doc_id and page_id")
            pages.append((document, page))
        return pages

    def _read_optional(self, name: str) -> Mapping[str, object]:
        path = self._path(name)
        return read_object(path) if os.path.exists(path) else {}

    def _payload(self, document: DocumentId, page: int) -> Optional[Mapping[str, object]]:
        """Returns the fields under the names that byaldi's results use."""
        fields: Dict[str, object] = {"doc_id": document, "page_num": page}
        for name, values in (("file_name", self._file_names), ("metadata", self._metadata)):
            if values.get(str(document)) is not None:
                fields[name] = values[str(document)]
        if self._columns in ((), ("*",)):
            return fields
        known = ("doc_id", "page_num", "file_name", "metadata")
        unknown = next((name for name in self._columns if name not in known), None)
        if unknown is not None:
            raise SourceError(f"{self._folder}: no column {unknown!r} for the payload; there are {', '.join(known)}")
        return {name: fields[name] for name in self._columns if name in fields} or None
