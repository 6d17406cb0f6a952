"""Files of torch.save, and pickles: a list of tensors [tokens, dim], one per document, or a dictionary from ids to
tensors.

A dictionary may also hold parallel lists, which --vectors-column, --id-column and --payload-columns name. A folder
holds such files (.pt, .pth, .bin, .pkl, .pickle, .p), or one tensor per file, whose name is the document's id."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from maxsim.collection.errors import quote_id
from maxsim.importers.readers.describing import describe
from maxsim.importers.document_labels import FileLabels, open_file_labels, with_fields
from maxsim.importers.readers.opening import open_regular
from maxsim.importers.source import (
    ID_NAMES,
    ImportOptions,
    SourceDocument,
    SourceError,
    check_options,
    first_named,
    note_left,
)
from maxsim.importers.readers.tensors import document_vectors, find_dim, is_tensor, natural_order
from maxsim.importers.readers.torch_files import is_torch_file, load_torch
from maxsim.importers.readers.pickles import load_pickle

_KIND = "pt"
_PICKLE_ENDINGS = (".pkl", ".pickle", ".p")
_ENDINGS = (".pt", ".pth", ".bin", *_PICKLE_ENDINGS)
# Marks a document without an id in the file. Its number becomes its id.
_NUMBERED = object()

# Id (or _NUMBERED), tensor and payload.
_Document = Tuple[object, object, Optional[Mapping[str, object]]]


def open_source(path: str, options: ImportOptions) -> PtSource:
    check_options(_KIND, options, ("id_column", "vectors_column", "payload_columns", "ids"))
    return PtSource(path, options)


class PtSource:
    kind = _KIND

    def __init__(self, path: str, options: ImportOptions) -> None:
        self._options = options
        if os.path.isdir(path):
            names = natural_order([name for name in os.listdir(path) if name.endswith(_ENDINGS)])
            if not names:
                raise SourceError(f"{path}: has no file of torch.save ({', '.join(_ENDINGS)})")
            self._files = [os.path.join(path, name) for name in names]
        else:
            self._files = [path]
        self.notes: List[str] = (
            [] if len(self._files) == 1 else [f"{len(self._files)} files, in the order of their names"]
        )
        # The lists of a dictionary that are not imported.
        self._left: Sequence[str] = ()
        self.dim = find_dim(
            (document[1] for file in self._files[:1] for document in self._documents(file)), self._files[0]
        )
        self.notes += note_left(self._left)
        # With several files, all of them would have to be read to count the documents.
        self.num_documents: Optional[int] = len(self._documents(path)) if len(self._files) == 1 else None
        self._labels: Optional[FileLabels] = None
        if options.ids is not None:
            self._labels = open_file_labels(options, sum(len(self._documents(file)) for file in self._files))

    def __iter__(self) -> Iterator[SourceDocument]:
        number = 0
        labels = iter(self._labels) if self._labels is not None else None
        for file in self._files:
            for document_id, value, payload in self._documents(file):
                if labels is not None:
                    document_id, fields = next(labels)
                    payload = with_fields(payload, fields)
                elif document_id is _NUMBERED:
                    document_id = number
                if isinstance(document_id, bool) or not isinstance(document_id, (str, int, np.integer)):
                    raise SourceError(
                        f"{file}: document {number}: its id is {describe(document_id)}; must be a string or an integer"
                    )
                document_id = document_id if isinstance(document_id, str) else int(document_id)
                vectors = document_vectors(value, f"{file}: document {quote_id(document_id)}")
                yield SourceDocument(document_id, vectors, payload)
                number += 1
        if labels is not None:
            next(labels, None)

    def _documents(self, file: str) -> Sequence[_Document]:
        """Returns the documents of a file. Does not read the elements of tensors yet."""
        if is_torch_file(file) or not file.endswith(_PICKLE_ENDINGS):
            value = load_torch(file)
        else:
            with open_regular(file, "rb") as stream:
                value = load_pickle(stream.read(), file)
        if isinstance(value, dict) and self._options.vectors_column is not None:
            return self._from_columns(value, file)
        for name, given in (
            ("--id-column", self._options.id_column),
            ("--payload-columns", self._options.payload_columns),
        ):
            if given:
                raise SourceError(
                    f"{file}: {name} needs a dictionary of lists and --vectors-column, which names one of them"
                )
        if is_tensor(value) and len(self._files) > 1:
            return [(os.path.splitext(os.path.basename(file))[0], value, None)]
        if isinstance(value, dict):
            if value and not any(map(is_tensor, value.values())):
                there = ", ".join(str(key)[:40] for key in list(value)[:20])
                raise SourceError(
                    f"{file}: its dictionary has no tensors: --vectors-column names their list; there are {there}"
                )
            return [(document_id, tensor, None) for document_id, tensor in value.items()]
        if isinstance(value, (list, tuple)):
            return [(_NUMBERED, tensor, None) for tensor in value]
        found = "a tensor, which --from padded reads" if is_tensor(value) else f"a {type(value).__name__}"
        raise SourceError(f"{file}: holds {found}; must hold a list of tensors or a dictionary from ids to tensors")

    def _from_columns(self, columns: Dict[object, object], file: str) -> Sequence[_Document]:
        """Returns the documents of a dictionary of parallel lists."""
        name = self._options.vectors_column
        vectors = _column(columns, name, file)
        if isinstance(vectors, dict):
            return [(document_id, tensor, None) for document_id, tensor in vectors.items()]
        assert isinstance(vectors, (list, tuple))
        ids: Sequence[object] = [_NUMBERED] * len(vectors)
        id_column = self._options.id_column
        if id_column is None and self._options.ids is None:
            id_column = first_named(ID_NAMES, (other for other in columns if isinstance(other, str) and other != name))
        if id_column is not None:
            ids = _list(columns, id_column, file, len(vectors))
        payload_columns = self._options.payload_columns
        others = [str(other) for other in columns if other not in (name, id_column)]
        if payload_columns == ("*",):
            payload_columns = tuple(others)
        beside = (other for other in others if isinstance(columns.get(other), (list, tuple)))
        self._left = [other for other in beside if other not in payload_columns]
        fields = {other: _list(columns, other, file, len(vectors)) for other in payload_columns}
        return [
            (ids[index], tensor, {other: values[index] for other, values in fields.items()} or None)
            for index, tensor in enumerate(vectors)
        ]


def _column(columns: Dict[object, object], name: Optional[str], file: str) -> object:
    value = columns.get(name)
    if not isinstance(value, (list, tuple, dict)):
        there = ", ".join(str(key) for key in list(columns)[:20]) or "none"
        raise SourceError(f"{file}: has no list {name!r}; there are {there}")
    return value


def _list(columns: Dict[object, object], name: str, file: str, length: int) -> Sequence[object]:
    value = _column(columns, name, file)
    if isinstance(value, dict) or not isinstance(value, (list, tuple)) or len(value) != length:
        raise SourceError(f"{file}: {name!r} must be a list of {length} values, as many as there are documents")
    return value
