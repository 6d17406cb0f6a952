"""The parts that all index folders of residual codes share, whichever library wrote them: metadata.json, chunks of
lengths and codes, and PyLate's ids."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np

from maxsim.collection.codebook import Codebook
from maxsim.importers.indexes.index_files import find_id_map, read_count, read_id_map, read_lengths, read_object
from maxsim.importers.indexes.residual_codec import ResidualCodec
from maxsim.importers.source import CodedSource, DocumentId, ImportOptions, SourceError


class ResidualIndex(CodedSource):
    """The base of sources that read an index folder of residual codes. A subclass calls _read_index_metadata, and then
    _read_codec."""

    def __init__(self, folder: str, options: ImportOptions) -> None:
        self._folder = folder
        self._options = options
        self._notes: List[str] = []
        self.notes: Sequence[str] = self._notes

    def keep_codes(self) -> Codebook:
        codebook = self._codec.keep_codes()
        if self._codec.rounds_centroids:
            self._notes.append("centroids are rounded to float16, in which the library computes on a GPU")
        return codebook

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _read_index_metadata(self, foreign_file: str, foreign: str, expected: str) -> Mapping[str, object]:
        """Returns metadata.json. SourceError if there is none, or if `foreign_file` exists, because that belongs to
        another kind of index."""
        path = self._path("metadata.json")
        if os.path.exists(self._path(foreign_file)):
            raise SourceError(f"{self._folder}: is an index of {foreign} reads")
        if not os.path.exists(path):
            raise SourceError(f"{self._folder}: has no metadata.json: it does not hold any {expected}")
        return read_object(path)

    def _count(self, values: Mapping[str, object], key: str) -> int:
        """Returns a count from metadata.json."""
        return read_count(values, key, self._path("metadata.json"))

    def _read_codec(
        self, library: str, centroids: np.ndarray, weights: np.ndarray, nbits: int, num_chunks: int
    ) -> None:
        """Sets the codec, `dim`, and the lengths of the documents in each chunk."""
        self._codec = ResidualCodec(centroids, weights, nbits, self._folder)
        self._lengths = [read_lengths(self._path(f"doclens.{chunk}.json")) for chunk in range(num_chunks)]
        self.dim = self._codec.dim
        self._notes.append(f"index of {library}, {nbits} bits a value, {len(centroids)} centroids, {num_chunks} chunks")

    def _read_pylate_ids(self, folder: str, num_documents: Optional[int] = None) -> Optional[Dict[int, DocumentId]]:
        """Returns PyLate's ids in `folder` by document number, or None if it has none. With `num_documents`, raises
        SourceError unless exactly the documents 0 to num_documents - 1 have ids."""
        path = find_id_map(folder)
        if path is None:
            return None
        ids = read_id_map(path)
        if num_documents is not None:
            missing = next((number for number in range(num_documents) if number not in ids), None)
            if missing is not None or len(ids) != num_documents:
                raise SourceError(
                    f"{path}: has {len(ids)} ids for {num_documents} documents"
                    + (f", none for document {missing}" if missing is not None else "")
                )
        self._notes.append(f"ids of PyLate ({os.path.basename(path)})")
        return ids
